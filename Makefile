# Two commands: `make book` builds the book from nothing, `make test` checks it. Both set up .venv by themselves.
#   make book PYTHON=python3.12    with another Python
#   make book GPU=cuda13           with CuPy as well (cuda12 or cuda13, as your driver has it)
#   make book WITH=intel           with Intel's OpenCL for the CPU as well; or peers, languages, cluster, bucket, tune, webgpu, as pyproject.toml
#                                  has them
# Each of them is taken from the command line alone: a shell may export variables of these names for other programs.
taken_from_command_line = $(if $(filter command line,$(origin $(1))),,$(eval override $(1) := $(2)))
$(call taken_from_command_line,PYTHON,python3)
$(call taken_from_command_line,GPU,)
$(call taken_from_command_line,WITH,)
BIN := .venv/bin

# What the shell tells Python, pip and uv does not take part, but for mirrors, proxies and caches.
KEPT := PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_NO_INDEX PIP_FIND_LINKS PIP_TRUSTED_HOST PIP_CERT PIP_CLIENT_CERT PIP_PROXY \
	PIP_TIMEOUT PIP_DEFAULT_TIMEOUT PIP_RETRIES PIP_CACHE_DIR PIP_NO_CACHE_DIR PIP_CONFIG_FILE PIP_KEYRING_PROVIDER \
	UV_INDEX UV_INDEX_% UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_NO_INDEX UV_FIND_LINKS UV_INSECURE_HOST UV_NATIVE_TLS \
	UV_SYSTEM_CERTS UV_HTTP_% UV_CACHE_DIR UV_NO_CACHE UV_CONFIG_FILE UV_KEYRING_PROVIDER UV_LINK_MODE UV_OFFLINE UV_CONCURRENT_%
$(foreach name,$(filter-out $(KEPT),$(filter PYTHON% PIP_% UV_%,$(.VARIABLES))),$(eval unexport $(name)))
export PIP_USER = 0
export PIP_REQUIRE_VIRTUALENV = 0

# uv installs in seconds. Where it cannot (a mirror that only pip is configured for), pip does the same, slowly. Python compiles
# what is imported when it is first imported, once, also where the environment keeps it from that: of all that is installed
# this is less than a third.
export PYTHONDONTWRITEBYTECODE =
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(BIN)/python -m pip install --quiet $(1)
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-annotate --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --python-version 3.11

.PHONY: book test test-all short-suite whole-suite imported lint serve picture citation dist lock clean

book: .venv/.$(or $(GPU),book) $(WITH:%=.venv/.%)
	@$(BIN)/roofbook build

# Four processes for two cores: some tests wait, for a kernel that hangs or a worker that was killed. Each process imports all tests.
PYTEST = $(BIN)/python -m pytest -n 4 --max-worker-restart 0 --durations 20
test: .venv/.test
	@$(MAKE) --no-print-directory -j 2 lint short-suite

test-all: .venv/.test
	@$(MAKE) --no-print-directory -j 2 lint whole-suite

short-suite: imported
	@MAKEFLAGS= $(PYTEST) -m "not thorough"

whole-suite: imported
	@MAKEFLAGS= $(PYTEST)

# One process imports all tests first: it rewrites their assertions once, for all processes of $(PYTEST). The linter runs beside
# both: without its cache mypy takes a minute, in one process.
imported: .venv/.test
	@$(BIN)/python -m compileall -q lib
	@answer=$$($(BIN)/python -m pytest --collect-only -qq) || { echo "$$answer"; exit 1; }

lint: .venv/.test
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

serve: book
	@$(BIN)/roofbook serve

# The picture in README.md, of the H200 on record.
RUNGS := sequential-c sequential partly-ported ported fused soa tree kept-partials accelerate-fused flat-grid graph \
	persistent tagged-halo deep-halo deep-halo-pause deep-halo-ptx lbmpy
picture: .venv/.book
	@$(BIN)/roofbook chart lbm 128x128 --on nvidia-h200/cuda --scale published $(RUNGS:%=--only %) --out book/_assets/ladder.svg

# CITATION.cff and .zenodo.json, from _config.yml and pyproject.toml.
citation: .venv/.book
	@$(BIN)/python -m roofbook.book.citation

# A wheel and the source's archive in dist/, as PyPI takes them.
dist: .venv/.base
	@rm -rf dist
	@$(BIN)/uv build --quiet
	@$(BIN)/uv tool run twine check --strict dist/*.whl dist/*.tar.gz

# What results/record.sh installs, each with what it needs: its lock, the lock that it agrees with, and the packages.
RECORD := "record:book:numpy pandas pyarrow duckdb matplotlib pcpp psutil pycparser click scikit-learn nvidia-ml-py pyopencl[pocl]" \
	"record-torch:book:torch" "record-lbmpy:book:lbmpy" "record-cpuinfo:book:py-cpuinfo" \
	"record-openvino:book:openvino" \
	"record-cuda12:book:cupy-cuda12x cuda-toolkit[cudart,nvrtc]==12.*" \
	"record-cuda13:record-torch:cupy-cuda13x cuda-toolkit[cudart,nvrtc]==13.*"
lock: .venv/.base
	echo uv | $(COMPILE) --output-file locks/uv.txt -
	$(COMPILE) --output-file locks/book.txt pyproject.toml
	for extra in test cuda12 cuda13 intel peers languages cluster bucket tune webgpu; do \
		$(COMPILE) --extra $$extra --constraint locks/book.txt --output-file locks/$$extra.txt pyproject.toml || exit 1; \
	done
	for of in $(RECORD); do \
		with=$${of#*:}; echo "$${with#*:}" | tr ' ' '\n' | $(COMPILE) --constraint "locks/$${with%%:*}.txt" \
			--output-file "locks/$${of%%:*}.txt" - || exit 1; \
	done
	echo nvidia-cudnn-frontend | $(COMPILE) --no-deps --output-file locks/record-cudnn.txt -

clean:
	rm -rf .venv _build book/labs book/techniques book/*.ipynb book/_generated

# A lock file, installed: done again only when the lock or pyproject.toml changes.
.venv/.%: locks/%.txt pyproject.toml | .venv/.base
	@echo "Installing locks/$*.txt into .venv"
	@$(call INSTALL,--require-hashes --requirement locks/$*.txt)
	@$(call INSTALL,--no-deps --no-build-isolation --editable .)
	@$(BIN)/python -m compileall -q lib
	@touch $@

.venv/.base:
	@command -v git >/dev/null || { echo "git is missing: install it, then run make again" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
		"Python 3.11 or newer is needed, $(PYTHON) is %d.%d: choose another by make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv --clear .venv || { echo "$(PYTHON) has no venv: install it (Debian: python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement locks/uv.txt
	@test ! -e .git || git config filter.roofbook-notebook.clean "$(BIN)/python lib/roofbook/book/clean_notebook.py" || true
	@touch $@
