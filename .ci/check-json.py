"""Checks the JSON document of smoke, which is read from stdin.

    smoke --input PATH --json | python3 .ci/check-json.py ROOT
"""
import json
import sys

text = sys.stdin.read()
report = json.loads(text)
job = report["job"]
assert report["schema_version"] == 1, report["schema_version"]
assert report["tool"]["name"] == "smoke", report["tool"]
assert report["outcome"] in ("absent", "available"), report["outcome"]
assert (report["reason"] is None) == (report["outcome"] == "available"), report["reason"]
if report["outcome"] == "absent":
    assert report["reason"]["kind"] == "DriverLibraryUnavailable", report["reason"]
    assert job["ran_on"] == "cpu", job["ran_on"]
assert report["error"] is None, report["error"]
assert job["verified"] == job["chunks"] > 0, (job["verified"], job["chunks"])
assert job["root"] == sys.argv[1], f"root {job['root']}, and {sys.argv[1]} is right"
print(f"outcome {report['outcome']}, {job['files']} files, {job['chunks']} chunks, root {job['root']}")
