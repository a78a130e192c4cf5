"""The rules of vLLM for all connectors of an engine: the policy for failed loads, and the time when
freed blocks go to others.

A MultiConnector gives each child a configuration of its own. vLLM's scheduler reads the outermost
one. Larder depends on two fields:

- kv_load_failure_policy must be "recompute": with "fail" a failed load fails its request.
- kv_role must be a role with loads. With another role a block may be freed and loaded anew while a
  step under way still writes the block.

`prepare` sets the two in the outermost configuration, which vLLM reads after the creation of the
connectors. `objection` looks at the running scheduler. Both belong to the scheduler's thread."""

import sys

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

from larder import client_embeddings
from larder.vllm.groups import Unsupported
from larder.vllm.fail_safe import logger

_WHERE = "in the outermost --kv-transfer-config"
_FAILS = "a failed load would fail its request"
_OVERWRITES = "loads could be overwritten by steps under way"
_SIZES = (
    "Larder: a client can end this engine: vLLM takes the size of embeddings without embeddings "
    "beside each connector that loads. Larder's plug-in of vLLM prevents this: add `larder` to "
    "VLLM_PLUGINS, and keep larder's .dist-info beside the package"
)


def prepare(connector, vllm_config, loads):
    """Makes a failed load a recompute, and a freed block safe to load into, for a connector that
    loads. Unsupported: that cannot be had; the text names the field. REQUIRES: called while
    `connector` is made."""
    own = vllm_config.kv_transfer_config
    outermost = _outermost(connector, vllm_config)
    outer = outermost.kv_transfer_config
    if outer is not own:
        _check_neighbours()
    if not loads:
        return
    _set(own, "kv_load_failure_policy", "recompute")
    if outer.kv_load_failure_policy != "recompute":
        _set(outer, "kv_load_failure_policy", "recompute")
        _tell(outer, "kv_load_failure_policy", "recompute", _FAILS)
    if outer is not own and not outer.is_kv_consumer:
        _set(outer, "kv_role", "kv_both")
        _tell(outer, "kv_role", "kv_both", _OVERWRITES)
    if client_embeddings.takes_sizes(outermost):
        logger.warning(_SIZES)


def alone(connector):
    """Whether vLLM makes `connector` itself, and not another connector. REQUIRES: called while
    `connector` is made."""
    return next(_makers(connector), None) is None


def objection():
    """Why loads are not safe with the scheduler that calls the connector. "": the loads are safe,
    or the scheduler is not known."""
    scheduler = _scheduler()
    if scheduler is None:
        return ""
    if not scheduler.recompute_kv_load_failures:
        return f'{_FAILS}: set "kv_load_failure_policy": "recompute" {_WHERE}'
    config = getattr(scheduler, "vllm_config", None)
    overlaps = getattr(config, "max_concurrent_batches", 1) > 1
    if overlaps and not getattr(scheduler, "defer_block_free", True):
        return f'{_OVERWRITES}: set "kv_role": "kv_both" {_WHERE}'
    return ""


def _check_neighbours():
    from vllm.v1.core.sched.output import SchedulerOutput

    if "has_sync_kv_loads" not in SchedulerOutput.__dataclass_fields__:
        raise Unsupported(
            "this vLLM does not tell which KV another connector loads within a step "
            "(has_sync_kv_loads is missing)"
        )


def _set(config, field, value):
    try:
        setattr(config, field, value)
    except Exception as error:
        raise Unsupported(
            f'{field} cannot be set ({error}): write "{field}": "{value}" {_WHERE}'
        ) from None


def _tell(outer, field, value, why):
    logger.warning(
        'Larder: %s is "%s" for all connectors of this %s from here on, because %s. Write it %s',
        field,
        value,
        outer.kv_connector,
        why,
        _WHERE,
    )


def _outermost(connector, vllm_config):
    """The configuration of the connector that vLLM makes: `vllm_config`, or the configuration of
    the outermost connector under construction. vLLM tells no connector its parent: the calls under
    way do."""
    found = vllm_config
    for given in _makers(connector):
        found = next((one for one in given if type(one) is type(vllm_config)), found)
    return found


def _makers(connector):
    """The arguments of each other connector under construction, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__init__":
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            maker, *given = [frame.f_locals.get(name) for name in names] or [None]
            if isinstance(maker, KVConnectorBase_V1) and maker is not connector:
                yield given
        frame = frame.f_back


def _scheduler():
    """vLLM's, where one calls the connector now."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "recompute_kv_load_failures") and hasattr(owner, "update_from_output"):
            return owner
        frame = frame.f_back
    return None
