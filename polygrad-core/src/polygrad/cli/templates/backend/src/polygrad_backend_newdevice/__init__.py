"""The device newdevice for polygrad."""
