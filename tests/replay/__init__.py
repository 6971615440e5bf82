"""The replay: what a tree of sources makes of many models, recorded and compared with what another tree makes of them."""
