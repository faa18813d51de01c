"""Calls an API under a governor as often as it is told to, one request after the other, and says what came back.

    outbound_client.py CLIENT PRESET DSN URL COUNT OPTIONS NAME PATH...

CLIENT is `httpx`, `aiohttp` (four requests at a time) or `requests`. OPTIONS is JSON: `buffer`, and `invalid` and
`everything` as pairs of a count and seconds.
"""

import asyncio
import collections
import itertools
import json
import sys

import aiohttp
import httpx
import requests

from ratelimit_rs.aiohttp import RateLimitMiddleware
from ratelimit_rs.httpx import RateLimitTransport
from ratelimit_rs.outbound import GlobalLimit, Governor, InvalidRequestLimit
from ratelimit_rs.requests import RateLimitAdapter

client, preset, dsn, url, count, options, name, *paths = sys.argv[1:]
options = json.loads(options)
more = {}
if "invalid" in options:
    more["invalid_request_limit"] = InvalidRequestLimit(*options["invalid"])
if "everything" in options:
    more["global_limit"] = GlobalLimit(*options["everything"])
governor = Governor(preset, store=dsn, safety_buffer=options["buffer"], **more)
headers = {"Authorization": "Bot of all", "X-Worker": name}
urls = [url + path for path in itertools.islice(itertools.cycle(paths), int(count))]
statuses = collections.Counter()


def by_httpx():
    with httpx.Client(transport=RateLimitTransport(governor), headers=headers, timeout=60) as session:
        statuses.update(session.get(url).status_code for url in urls)


def by_requests():
    with requests.Session() as session:
        session.mount("http://", RateLimitAdapter(governor))
        session.headers.update(headers)
        statuses.update(session.get(url).status_code for url in urls)


async def by_aiohttp():
    queue = iter(urls)
    async with aiohttp.ClientSession(middlewares=(RateLimitMiddleware(governor),), headers=headers) as session:

        async def take():
            for url in queue:
                async with session.get(url) as response:
                    statuses[response.status] += 1

        await asyncio.gather(*(take() for _ in range(4)))


if client == "aiohttp":
    asyncio.run(by_aiohttp())
else:
    {"httpx": by_httpx, "requests": by_requests}[client]()
print(json.dumps(statuses))
