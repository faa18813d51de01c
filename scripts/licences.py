"""Fails when a dependency has a licence that was not agreed to."""

import json
import re
import subprocess
import sys

AGREED = {
    "MIT", "MIT-0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD",
    "Unlicense", "CC0-1.0", "BSL-1.0", "Unicode-3.0", "bzip2-1.0.6", "CDLA-Permissive-2.0",
}
# Copyleft that reaches only the file it stands in; used to generate the C header, in nothing that is shipped.
BUILD_ONLY = {"cbindgen": "MPL-2.0"}


def agreed(package):
    if BUILD_ONLY.get(package["name"]) == package["license"]:
        return True
    alternatives = re.split(r"\s+OR\s+|/", (package["license"] or "").replace("(", "").replace(")", ""))
    # Of alternatives one has to be fine; of licences that hold together all have to.
    return any(all(part.strip() in AGREED for part in one.split(" AND ")) for one in alternatives)


command = ["cargo", "metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
wrong = [f"{p['name']} {p['version']}: {p['license']}" for p in packages if not agreed(p)]
if wrong:
    sys.exit("these dependencies have a licence that is not agreed to:\n  " + "\n  ".join(wrong))
print(f"{len(packages)} packages, all under agreed licences")
