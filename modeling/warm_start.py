"""
Loading checkpoints: a member's own, and those of the parents that it can start from.

A member names its parents: in its config, how a parent's config.json becomes its own; in its model, how the parent's
weights are named here. `from_pretrained` then takes a parent's checkpoint as it takes its own, and `save_pretrained`
writes our names. Everything else is refused with a sentence: transformers would load another model's checkpoint as a
randomly initialised model.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from safetensors import SafetensorError
from transformers.configuration_utils import PreTrainedConfig

# The arguments of from_pretrained that say where a checkpoint is.
LOCATION = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder", "proxies")


class WarmStartConfigMixin:
    """
    A config that reads its parents' config.json too. It stands before `PreTrainedConfig` among the bases.

    Class attributes:
        parents: for each parent's model type, a function from the parent's config as a dict to ours. `model_type` is
            dropped for it; fields that mean the same under the same name may stay.
    """

    model_type: ClassVar[str]
    parents: ClassVar[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {}

    @classmethod
    def translate(cls, config_dict: dict[str, Any]) -> dict[str, Any]:
        """A parent's config as ours; our own unchanged. Raises ValueError for any other model type."""
        found = config_dict.get("model_type", cls.model_type)
        if found == cls.model_type:
            return config_dict
        if found not in cls.parents:
            raise ValueError(_wrong_type(config_dict.get("_name_or_path") or "This", found, cls))
        parent = {name: value for name, value in config_dict.items() if name not in ("model_type", "architectures")}
        return cls.parents[found](parent)

    @classmethod
    def get_config_dict(
        cls, pretrained_model_name_or_path: Any, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As in transformers, a parent's config translated."""
        config_dict, kwargs = super().get_config_dict(pretrained_model_name_or_path, **kwargs)  # type: ignore[misc]
        return cls.translate(config_dict), kwargs

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in transformers: translated first, then the overrides in `kwargs`, then validated as a whole."""
        loaded = super().from_dict(cls.translate(config_dict), **kwargs)  # type: ignore[misc]
        config = loaded[0] if isinstance(loaded, tuple) else loaded
        config.validate_architecture()
        return loaded


class WarmStartModelMixin:
    r"""
    A model that loads its parents' checkpoints too. It stands before `PreTrainedModel` among the bases.

    Class attributes:
        parent_weights: for each parent's model type, the patterns of the parent's weight names and our names for
            them, as `key_mapping` of `from_pretrained` takes them; `{r"^roberta\.": "lambert."}` for example.
    """

    config_class: Any
    parent_weights: ClassVar[dict[str, dict[str, str]]] = {}

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """
        As in transformers, also for the checkpoints of the parents.

        Raises:
            ValueError: the checkpoint is of a model type that is neither ours nor a parent's.
            OSError: there is no safetensors file, or it is damaged.
        """
        if pretrained_model_name_or_path is None:
            return super().from_pretrained(None, *args, **kwargs)  # type: ignore[misc]
        location = {name: kwargs[name] for name in LOCATION if name in kwargs}
        config_dict, _ = PreTrainedConfig.get_config_dict(pretrained_model_name_or_path, **location)
        found = config_dict.get("model_type", cls.config_class.model_type)
        is_parent = found in cls.parent_weights
        if is_parent:
            kwargs.setdefault("key_mapping", cls.parent_weights[found])
        elif found == cls.config_class.model_type:
            # A pickle can run code when it is read; only parents' are read, by torch's weights_only loader.
            if kwargs.setdefault("use_safetensors", True) is False:
                raise ValueError("Weights are read from safetensors only; leave use_safetensors out.")
        else:
            raise ValueError(_wrong_type(pretrained_model_name_or_path, found, cls.config_class))
        try:
            loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)  # type: ignore[misc]
        except SafetensorError as error:
            raise OSError(
                f"The weights of {pretrained_model_name_or_path} are damaged or cut short ({error}); "
                "save or download the checkpoint again."
            ) from error
        except OSError as error:
            if is_parent or "model.safetensors" not in str(error):
                raise
            raise OSError(
                f"{pretrained_model_name_or_path} has no model.safetensors, the only weights that are read, since a "
                "pickle can run code; write the file with save_pretrained, or convert the checkpoint."
            ) from error
        if is_parent:
            # transformers would write the parent's names back.
            (loaded[0] if isinstance(loaded, tuple) else loaded)._weight_conversions = None
        return loaded


def _wrong_type(name: Any, found: str, config_class: Any) -> str:
    accepted = " or ".join([config_class.model_type, *config_class.parents])
    return (
        f"{name} is a checkpoint of the model type '{found}', but {config_class.__name__} loads {accepted}; load it "
        "with the Auto class, which picks its own model, or name another checkpoint."
    )
