"""The graph neural networks that can be chosen by name."""

from gib_nb.utils.registry import Registry

BACKBONES = Registry(
    "backbone"
)  # name → class (in_channels, hidden_channels, num_layers, dropout=, norm=, norm_kwargs=) of PyG's `BasicGNN`; one that supports edge_attr also gets edge_dim= if the graphs have edge_attr
PRETRAINED = {
    "zinc": {"name": "gine", "hidden_channels": 192, "num_layers": 5, "norm": "batch_norm"}
}  # name of pre-trained weights → settings of the encoder that has them

BACKBONES.register("gcn", "torch_geometric.nn.models:GCN")
BACKBONES.register("graphsage", "torch_geometric.nn.models:GraphSAGE")
BACKBONES.register("gin", "torch_geometric.nn.models:GIN")
BACKBONES.register("gat", "gib_nb.nn.backbones:GAT")
BACKBONES.register("gine", "gib_nb.nn.backbones:GINE")
BACKBONES.register("gatv2", "gib_nb.nn.backbones:GATv2")
