"""A Dask worker that ends with its parent process: `python -m roofbook.measure.cluster_worker ADDRESS [OPTIONS]`.

The options are those of `dask worker`, which is enough where another program ends it, such as Slurm.
"""

from .background_group import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    from distributed.cli.dask_worker import main

    main()
