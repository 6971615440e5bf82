"""The Ethos-U that Vela compiles for, by family and multiply-accumulates a cycle."""

FAMILIES = {"ethos-u55": (32, 64, 128, 256), "ethos-u65": (256, 512), "ethos-u85": (128, 256, 512, 1024, 2048)}
#: As Vela names them: "ethos-u55-128".
ACCELERATORS = tuple(f"{family}-{macs}" for family, sizes in FAMILIES.items() for macs in sizes)
