"""A worker of Dask that ends with whoever started it: `python -m roofbook.measure.cluster_worker ADDRESS [OPTIONS]`.

The options are those of `dask worker`. Elsewhere, as in a job of Slurm, `dask worker` itself will do.
"""

from .background_group import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    from distributed.cli.dask_worker import main

    main()
