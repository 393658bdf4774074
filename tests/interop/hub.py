#!/usr/bin/env python3
"""hub.py FOLDER PORT_FILE: a data hub for tests on FOLDER/NAME/... that answers as huggingface.co does: lists of files in
pages of two, files with ranges. It cuts each transfer after 1000 bytes the first three times, spoils the bytes of files
named bad*, sends those named slow* little by little, and refuses those named gone*. The data sets evil/* are of a hub that
means harm: HARM, LINKS and what reads them say how. PORT_FILE.log has all requests (host, path, token), and transfers that
the other side has ended."""
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
text = b"what evil data sets hold\n"
sha1 = hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()
entry = {"type": "file", "path": "x", "size": len(text), "oid": sha1}
# evil/NAME: changes of the entry of its only file
HARM = {
    "oid-blank": {"oid": sha1 + " ../stolen"},
    "oid-newline": {"oid": f"0 y\n{len(text)} git {sha1} ../stolen"},
    "oid-short": {"oid": sha1[1:]},
    "oid-upper": {"oid": sha1.upper()},
    "oid-long": {"oid": hashlib.sha256(text).hexdigest()},
    "oid-number": {"oid": 7},
    "lfs-blank": {"lfs": {"oid": hashlib.sha256(text).hexdigest() + " ../stolen"}},
    "lfs-sha1": {"lfs": {"oid": sha1}},
    "size-text": {"size": f"{len(text)} git {sha1} ../stolen\n1"},
    "size-negative": {"size": -1},
    "size-real": {"size": 24.5},
    "size-true": {"size": True},
    "size-beyond": {"size": 1 << 51},
    "size-missing": {"size": None},
    "path-delete": {"path": "a\x7f"},
    "path-escape": {"path": "a\x9b31m"},
    "path-empty": {"path": "a//b"},
    "path-dot": {"path": "a/./b"},
    "path-long": {"path": "a" * 256},
    "path-broken": {"path": "a\ud800"},
    "no-room": {"size": 1 << 49},
    "larger": {"size": 1000},
    "bytes": {"size": 400},
    "whole": {"size": 400000},
}
# evil/NAME: address of the page after each; HOST is this hub, OTHER the same one under another name
LINKS = {
    "link-option": "-Kconfig",
    "link-host": "http://OTHER/api/datasets/evil/moved/tree/main",
    "link-user": "http://HOST@OTHER/api/datasets/evil/moved/tree/main",
    "link-path": "http://HOST/datasets/evil/link-path/resolve/main/x",
    "link-file": "file://" + os.path.abspath(root) + "/page.json",
    "link-blank": "http://HOST/api/datasets/evil/link-blank/tree/main -Kconfig",
    "link-again": "http://HOST/api/datasets/evil/link-again/tree/main?recursive=true",
    "link-more": "http://HOST/api/datasets/evil/link-more/tree/main?recursive=true&cursor=NEXT",
    "link-turns": "<" * 60000,
}


class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def log(self, line):
        with open(port_file + ".log", "a") as log:
            print(line, file=log)

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

    def drip(self, data, piece=16384, pause=0.1):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.close_connection = True
        for i in range(0, len(data), piece):
            try:
                self.wfile.write(data[i:i + piece])
            except OSError:
                self.log(f"{self.path} cut after {i} bytes")
                return
            time.sleep(pause)

    def redirect(self, to):
        self.answer(302, b"", [("Location", to)])

    def harm_list(self, kind, cursor):
        host = self.headers["Host"]
        other = host.replace("127.0.0.1", "localhost")
        if kind == "list-stalls":
            return self.drip(b"[" * 10, 1, 30)
        if kind == "list-drips":
            return self.drip(b" " * 400000, 300)
        if kind == "list-large":
            return self.drip(b" " * (1 << 26), 1 << 16, 0)
        if kind == "list-nested":
            return self.answer(200, b"[" * 100000)
        if kind == "list-moved":
            return self.redirect(f"http://{other}/api/datasets/evil/moved/tree/main")
        if kind == "list-turns":
            return self.redirect(self.path)
        link = LINKS.get(kind, "").replace("HOST", host).replace("OTHER", other).replace("NEXT", str(cursor + 1))
        self.answer(200, json.dumps([{**entry, **HARM.get(kind, {})}]).encode(),
                    [("Link", f'<{link}>; rel="next"')] if link else [])

    def harm_file(self, kind):
        host = self.headers["Host"]
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        at = int(asked[1]) if asked else 0
        if kind == "larger":
            self.drip(b"x" * (1 << 26), 1 << 16, 0)
        elif kind == "bytes":
            self.answer(206 if asked else 200, b"x" * (400 - at), [("Content-Range", f"bytes {at}-399/400")] if asked else [], 1)
        elif kind == "whole":
            self.answer(200, b"x" * 400000, cut=300000)
        elif kind == "moved":
            self.redirect(f'http://{host.replace("127.0.0.1", "localhost")}/elsewhere')
        elif kind == "moved-ftp":
            self.redirect("ftp://127.0.0.1:1/x")
        else:
            self.answer(200, text)

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
        self.log(f'{self.headers["Host"]} {self.path} {self.headers.get("Authorization")}')
        address = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(address.query)
        path = urllib.parse.unquote(address.path)
        tree = re.fullmatch("/api/datasets/([^/]+/[^/]+)/tree/main/?(.*)", path)
        file = re.fullmatch("/datasets/([^/]+/[^/]+)/resolve/main/(.*)", path)
        if path == "/elsewhere":
            self.answer(200, text)
        elif tree and tree[1].startswith("evil/"):
            self.harm_list(tree[1][5:], int(query.get("cursor", ["0"])[0]))
        elif file and file[1].startswith("evil/"):
            self.harm_file(file[1][5:])
        elif tree:
            self.list(tree[1], tree[2], query)
        elif file:
            self.file(f"{file[1]}/{file[2]}")
        else:
            self.answer(404, b"")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
with open(port_file + ".new", "w") as out:
    out.write(str(server.server_port))
os.rename(port_file + ".new", port_file)
server.serve_forever()
