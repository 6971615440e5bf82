"""What quantization does to a model's numbers, layer by layer: ``et.quantization_report`` and what it is made of.

report.py is the way in; matching.py finds the layers of one graph in the other, paired_run.py runs both and adds up,
table.py is the result, whose data rows.py holds and page.py draws. Nothing here knows a quantizer or a backend: the
q/dq nodes in the graph (graphs/nodes.py) are all it reads.
"""
