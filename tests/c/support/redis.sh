# A redis-server for a shell script; sourced, never run.
# shellcheck shell=bash

# start_redis: starts a server in the folder $work and leaves its port in $port and its process in $redis, which the
# caller ends. The port turns out to be free by trying: a server whose port somebody holds ends at once.
start_redis() {
  for port in $(shuf -n 20 -i 20000-30000); do
    redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$work" >"$work/redis.log" &
    redis=$!
    while kill -0 "$redis" 2>/dev/null; do
      if grep -q "eady to accept connections" "$work/redis.log"; then return; fi
      sleep 0.02
    done
  done
  echo "no redis-server has started; the last one said:" && cat "$work/redis.log" && exit 1
}
