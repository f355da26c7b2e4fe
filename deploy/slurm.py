"""A fleet on the nodes of a Slurm allocation: one Dask worker a node, beside the agent that its administrator runs.

On each node, once: ``sonde unit --agent GROUP`` (see docs/fleet.md), with the group of those who may trace, and their
names in ``users`` of /etc/sonde/agent.toml. Then, as one of them, with ``pip install '.[fleet]' dask-jobqueue``::

    python deploy/slurm.py --nodes 16 -- 'tracepoint:block:block_rq_issue { @ = hist(args.bytes); }'
"""

from __future__ import annotations

import argparse
from typing import Any


def make_cluster(nodes: int, minutes: int, **more: Any) -> Any:
    """A dask_jobqueue.SLURMCluster whose workers have a node each to themselves, and TLS, whose keys dask-jobqueue
    makes in a folder that the nodes share."""
    from dask_jobqueue import SLURMCluster
    cluster = SLURMCluster(
        cores=1, processes=1, memory="512MB", job_mem="512M", walltime=f"0:{minutes}:00", job_name="sonde",
        job_extra_directives=["--nodes=1", "--ntasks=1", "--exclusive"], protocol="tls://", security=True,
        shared_temp_directory=".", worker_extra_args=["--no-dashboard"], **more)
    cluster.scale(jobs=nodes)
    return cluster


def main() -> None:
    """Trace on the nodes of a job array until the time is over."""
    import distributed

    import sonde
    parser = argparse.ArgumentParser(description="Trace on Slurm's nodes.")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--minutes", type=int, default=10, help="how long the job may take")
    parser.add_argument("script")
    asked = parser.parse_args()
    with make_cluster(asked.nodes, asked.minutes) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(asked.nodes)
        with sonde.fleet(client, asked.script) as tracing:
            for event in tracing.events(timeout=asked.seconds):
                print(event.host, *event.args)
        print(tracing)
        for name, values in tracing.maps.items():
            print(name, values)


if __name__ == "__main__":
    main()
