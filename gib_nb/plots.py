"temporary stand-in, overwritten by the export of 15_plots"
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY, BLACK = "#0072B2 #E69F00 #009E73 #D55E00 #CC79A7 #56B4E9 #999999 #222222".split()
def figure(traces, x="", y="", title="", height=300, **layout):
    import plotly.graph_objects as go
    base = dict(template="none", height=height, font=dict(size=12), margin=dict(l=60, r=15, t=30, b=45), uirevision="keep", hovermode="closest",
                xaxis=dict(title=dict(text=x), gridcolor="#eee", zeroline=False), yaxis=dict(title=dict(text=y), gridcolor="#eee", zeroline=False),
                showlegend=sum("name" in t for t in traces) > 1, legend=dict(orientation="h", y=1.12))
    for k, v in layout.items():
        base[k] = base.get(k, {}) | v if isinstance(v, dict) and isinstance(base.get(k), dict) else v
    return go.Figure(data=traces, layout=base)
def graph_layout(edges, n):
    import networkx, numpy as np
    g = networkx.Graph(); g.add_nodes_from(range(n)); g.add_edges_from(edges.tolist())
    p = networkx.kamada_kawai_layout(g); return np.array([p[i] for i in range(n)])
def draw_graph(edges, weights, threshold=.5, positions=None, edge_weights=None, letters=None, true_nodes=(), true_edges=(), title="", size=(320, 260)):
    import numpy as np
    p = np.array(positions); p = (p - p.min(0)) / (p.max(0) - p.min(0) + 1e-9) * (np.array(size) - 30) + 15
    out = [f'<line x1="{p[i][0]:.0f}" y1="{p[i][1]:.0f}" x2="{p[j][0]:.0f}" y2="{p[j][1]:.0f}" stroke="#999"/>' for i, j in edges]
    out += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="8" fill="rgba(0,114,178,{w:.2f})" stroke="black"/>' for (x, y), w in zip(p, weights)]
    return f'<svg viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" height="{size[1]}">' + "".join(out) + "</svg>"
