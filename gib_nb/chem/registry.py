"""The properties of molecules that can be chosen by name."""

from gib_nb.utils.registry import Registry

PROPERTIES = Registry("property")  # name → function () → `PropertyOracle`
PROPERTIES.register("QED", "gib_nb.chem.properties:qed_oracle")
PROPERTIES.register("DRD2", "gib_nb.chem.properties:drd2_oracle")
PROPERTIES.register("HLM", "gib_nb.chem.properties:hlm_oracle")
PROPERTIES.register("MLM", "gib_nb.chem.properties:mlm_oracle")
