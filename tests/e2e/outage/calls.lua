-- What wrk is told to do: write down each answer, and stop between two requests once a file is there, so that no answer is
-- left unread. Needs one connection per thread.
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(arguments)
  stop = arguments[1] .. "/stop"
  calls = io.open(arguments[1] .. "/calls-" .. number, "w")
end

function response(status, headers)
  calls:write(status, " ", headers["X-Call"] or "-", "\n")
  local stopped = io.open(stop)
  if stopped then
    stopped:close()
    calls:write("end\n")
    calls:close()
    wrk.thread:stop()
  end
end
