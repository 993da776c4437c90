"""Networks: dense ones that compiled code trains, and any Torch module through autograd."""
