"""A bundle for a bug report: what helps to find a mistake, and nothing that was said, read, written or secret."""

from teamwright.app.looking.bundling.collecting import Wanted, collect
from teamwright.app.looking.bundling.writing import Part, bundle_path, write_bundle

__all__ = ["Part", "Wanted", "bundle_path", "collect", "write_bundle"]
