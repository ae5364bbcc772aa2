"""The sandbox: commands run under restrictions that the kernel enforces."""
