#!/usr/bin/env python3
"""hub.py FOLDER PORT_FILE: a data hub for tests on FOLDER/NAME/... that answers as huggingface.co does: lists of files in
pages of two, files with ranges. It cuts each transfer after 1000 bytes the first three times, spoils the bytes of files
named bad*, sends those named slow* little by little, and refuses those named gone*."""
import hashlib
import http.server
import json
import os
import re
import sys
import time
import urllib.parse

root, port_file = sys.argv[1:]
cuts = {}


class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def answer(self, code, data, headers=(), cut=None):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:cut])
        self.close_connection = True

    def list(self, name, folder, query):
        base = os.path.join(root, name)
        paths = sorted(os.path.relpath(os.path.join(at, file), base)
                       for at, _, files in os.walk(os.path.join(base, folder)) for file in files)
        if not paths:
            return self.answer(404, b'{"error":"not found"}')
        first = int(query.get("cursor", ["0"])[0])
        entries = [{"type": "directory", "oid": "0", "size": 0, "path": folder or "x"}]
        for i, path in enumerate(paths[first:first + 2]):
            data = open(os.path.join(base, path), "rb").read()
            entry = {"type": "file", "path": path, "size": len(data),
                     "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            if (first + i) % 2 == 0:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            entries.append(entry)
        more = first + 2 < len(paths)
        link = f'<http://{self.headers["Host"]}{self.path.split("&cursor")[0]}&cursor={first + 2}>; rel="next"'
        self.answer(200, json.dumps(entries).encode(), [("Link", link)] if more else [])

    def drip(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.close_connection = True
        for i in range(0, len(data), 16384):
            try:
                self.wfile.write(data[i:i + 16384])
            except OSError:
                return
            time.sleep(0.1)

    def file(self, path):
        name = os.path.basename(path)
        if name.startswith("gone"):
            return self.answer(404, b"")
        data = open(os.path.join(root, path), "rb").read()
        if name.startswith("bad"):
            data = data[:-1] + b"?"
        if name.startswith("slow"):
            return self.drip(data)
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        at = int(asked[1]) if asked else 0
        cuts[path] = cuts.get(path, 0) + 1
        self.answer(206 if asked else 200, data[at:], [("Content-Range", f"bytes {at}-{len(data) - 1}/{len(data)}")] if asked else [],
                    1000 if cuts[path] <= 3 else None)

    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(address.path)
        tree = re.fullmatch("/api/datasets/([^/]+/[^/]+)/tree/main/?(.*)", path)
        file = re.fullmatch("/datasets/([^/]+/[^/]+)/resolve/main/(.*)", path)
        if tree:
            self.list(tree[1], tree[2], urllib.parse.parse_qs(address.query))
        elif file:
            self.file(f"{file[1]}/{file[2]}")
        else:
            self.answer(404, b"")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
with open(port_file + ".new", "w") as out:
    out.write(str(server.server_port))
os.rename(port_file + ".new", port_file)
server.serve_forever()
