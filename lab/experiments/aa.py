"""A/A: the experiments of a topology with one variant only, run often. Pure.

What such a run sees is the noise of host, guests and workload: lab.experiments.calibration.
"""

from __future__ import annotations

import yaml

from lab.experiments.design import Profile, effective
from lab.topology.load import LoadedTopology, parse


def identical(
    loaded: LoadedTopology, profile: Profile, *, boots: int, trials: int
) -> LoadedTopology:
    """`loaded` with the first variant of each experiment and no claim.

    Variants that change the guests are passed over: their boots are other guests'.
    """
    experiments = {}
    for name, experiment in effective(loaded.topology.experiments, profile).items():
        label = next((each for each, of in experiment.variants.items() if not of.topology), None)
        if label is None:
            continue
        gate = next(iter(experiment.gates.values()))
        experiments[name] = {
            "what": f"A/A of variant {label}",
            "workload": experiment.workload.model_dump(exclude_none=True),
            "variants": {
                label: experiment.variants[label].model_dump(
                    exclude_none=True, exclude={"trials", "topology"}, mode="json"
                )
            },
            "trials": trials,
            "boots": boots,
            "timeout_s": experiment.timeout_s,
            "gates": {"noise": {"metric": gate.metric, "variant": label, "report": True}},
        }
    document = {**loaded.tree.data, "experiments": experiments}
    return parse(yaml.safe_dump(document, sort_keys=False), loaded.path)
