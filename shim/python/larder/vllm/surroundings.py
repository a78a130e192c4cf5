"""What vLLM does around all connectors of an engine: the policy for failed loads, and when freed blocks go to others.

A MultiConnector hands each child a configuration of the child's own. vLLM's scheduler reads the outermost one. Both rules depend on it:

- kv_load_failure_policy must be "recompute": with "fail" a failed load of the cache fails the request.
- kv_role must be that of an engine that loads. Else a block may be freed and loaded anew while a step under way still writes the block.

`prepare` sets the two in the outermost configuration, which vLLM reads after it has made the connectors. `objection` looks at the
scheduler that runs. Both belong to the scheduler's thread."""

import sys

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from larder.vllm.groups import Unsupported
from larder.vllm.guard import logger

_WHERE = "in the outermost --kv-transfer-config"


def prepare(connector, vllm_config, loads):
    """Makes a failed load a recompute, and a freed block safe to load into, for a connector that loads. Unsupported: that cannot be had; the
    text names the field. REQUIRES: called while `connector` is made."""
    own, outer = vllm_config.kv_transfer_config, _outermost(connector, vllm_config).kv_transfer_config
    if outer is not own:
        _check_neighbours()
    if not loads:
        return
    _set(own, "kv_load_failure_policy", "recompute")
    if outer.kv_load_failure_policy != "recompute":
        _set(outer, "kv_load_failure_policy", "recompute")
        _tell(outer, "kv_load_failure_policy", "recompute", "a failed load would fail its request")
    if outer is not own and not outer.is_kv_consumer:
        _set(outer, "kv_role", "kv_both")
        _tell(outer, "kv_role", "kv_both", "loads could be overwritten by steps under way")


def _check_neighbours():
    from vllm.v1.core.sched.output import SchedulerOutput

    if "has_sync_kv_loads" not in SchedulerOutput.__dataclass_fields__:
        raise Unsupported("this vLLM does not tell which KV another connector loads within a step (has_sync_kv_loads is missing)")


def objection():
    """Why loads are not safe with the scheduler that calls the connector; "": they are, or the scheduler is not known."""
    scheduler = _scheduler()
    if scheduler is None:
        return ""
    if not scheduler.recompute_kv_load_failures:
        return f'a failed load would fail its request: set "kv_load_failure_policy": "recompute" {_WHERE}'
    overlaps = getattr(getattr(scheduler, "vllm_config", None), "max_concurrent_batches", 1) > 1
    if overlaps and not getattr(scheduler, "defer_block_free", True):
        return f'loads could be overwritten by steps under way: set "kv_role": "kv_both" {_WHERE}'
    return ""


def _set(config, field, value):
    try:
        setattr(config, field, value)
    except Exception as error:
        raise Unsupported(f'{field} cannot be set ({error}): write "{field}": "{value}" {_WHERE}') from None


def _tell(outer, field, value, why):
    logger.warning(
        'Larder: %s is "%s" for all connectors of this %s from here on, because %s. Write it %s', field, value, outer.kv_connector, why, _WHERE
    )


def _outermost(connector, vllm_config):
    """The configuration of the connector that vLLM makes: `vllm_config`, or what the outermost of the connectors that are being made was
    given. No connector is told its parent, so that the calls under way are looked at."""
    found, frame = vllm_config, sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__init__":
            values = list(frame.f_locals.values())  # arguments come first
            if values and isinstance(values[0], KVConnectorBase_V1) and values[0] is not connector:
                found = next((value for value in values[1:] if type(value) is type(vllm_config)), found)
        frame = frame.f_back
    return found


def _scheduler():
    """vLLM's, where one calls the connector now."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if owner is not None and hasattr(type(owner), "update_from_output") and hasattr(owner, "recompute_kv_load_failures"):
            return owner
        frame = frame.f_back
    return None
