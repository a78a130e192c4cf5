"""Keeps a client's embeddings of pictures, sound and video a choice of the operator.

vLLM 0.32 and 0.33 turn --enable-mm-embeds on in each engine with a connector that may load KV. Such
an engine also takes the size of embeddings without embeddings: a decode engine gets KV of such
items from its prefill engine. Larder brings no KV for an item without content, so the size ends the
process of the engine. An engine that loads by Larder alone therefore takes embeddings as an
engine without a connector does: with --enable-mm-embeds, and never by their size.

vLLM decides while an engine's configuration is made, in every process that makes one. Thread-
compatible."""

import copy
import functools
import logging

_METHOD = "_resolve_mm_embedding_inputs"


def leave_to_flag(config_class):
    """config_class: VllmConfig. May be called any number of times. A vLLM without the method stays
    as it is."""
    resolve = getattr(config_class, _METHOD, None)
    if resolve is None or hasattr(resolve, "without_larder"):
        return

    @functools.wraps(resolve)
    def without_larder(self):
        # A copy of the engine's configuration has the same multimodal_config, which the method
        # changes.
        if loads_by_larder_alone(self.kv_transfer_config):
            self = copy.copy(self)
            self.kv_transfer_config = None
        resolve(self)

    without_larder.without_larder = True
    setattr(config_class, _METHOD, without_larder)


def loads_by_larder_alone(transfer):
    """Whether each connector that may load is Larder's. transfer: a KVTransferConfig, or None."""
    try:
        loading = list(_loading(transfer)) if transfer is not None else []
    except Exception as error:  # vLLM's own check of the configuration follows, and names the field
        logging.getLogger("vllm.larder").debug("Larder: no such connector: %s", error)
        return False
    return bool(loading) and all(loading)


def _loading(transfer):
    """For each connector that may load: whether the connector is Larder's."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    if transfer.kv_connector == "MultiConnector":
        for child in transfer.kv_connector_extra_config.get("connectors", ()):
            # vLLM gives each child the identity of the outermost configuration
            fields = {"engine_id": transfer.engine_id, **child}
            yield from _loading(type(transfer)(**fields))
    elif transfer.is_kv_consumer:
        kind = KVConnectorFactory.get_connector_class(transfer)
        from larder.vllm.connector import LarderConnector

        yield issubclass(kind, LarderConnector)


def takes_sizes(vllm_config):
    """Whether the engine takes the size of embeddings, although no connector needs the size."""
    model = getattr(vllm_config, "model_config", None)
    multimodal = getattr(model, "multimodal_config", None)
    encoder = getattr(vllm_config, "ec_transfer_config", None)
    return (
        getattr(multimodal, "allow_missing_mm_embeddings", False)
        and not getattr(encoder, "is_ec_consumer", False)
        and loads_by_larder_alone(vllm_config.kv_transfer_config)
    )
