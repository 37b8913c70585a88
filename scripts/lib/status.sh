# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# sf2loki status and stop: other processes' lanes.

running() { # DIR: is its lock held?
	[ -e "$1/lock" ] || return 1
	flock -n "$1/lock" true
	[ $? -eq 1 ]
}

# status_lane LANE: show it; 69 when it does not run. $json says how.
status_lane() {
	configure "$1" || exit
	alive=0
	if running "$dir"; then alive=1; fi
	for file in ends stages state; do
		[ ! -e "$dir/$file" ] || sed "s/^/$file /" "$dir/$file"
	done | awk -v lane="$lane" -v alive="$alive" -v json="$json" '
		$1 == "ends" { ended[$2] = 1 }
		$1 == "stages" && !($2 in ended) { stages = stages sprintf("  %s %d\n", $2, $3); list = list sprintf(",\"%s\":%d", $2, $3) }
		$1 == "state" && $2 == "last" { last = $3 " status " $5; at = $3; code = $5; why = substr($0, index($0, " of ") + 4) ; if ($6 != "of") why = "" }
		$1 == "state" { name = $2; sub(/^state [a-z]+ /, ""); is[name] = $0 }
		END {
			if (!alive) { is["state"] = "not running"; stages = list = "" }
			if (is["state"] !~ /^(starting|running|stopping)$/) stages = list = ""
			if (json) {
				printf "{\"lane\":\"%s\",\"state\":\"%s\"", lane, is["state"]
				if (alive) printf ",\"since\":\"%s\",\"supervisor\":%d,\"runs\":%d,\"stages\":{%s}", is["since"], is["pid"], is["runs"], substr(list, 2)
				if (at != "") printf ",\"last\":{\"at\":\"%s\",\"status\":%d,\"stage\":\"%s\"}", at, code, why
				print "}"
				exit
			}
			print lane ": " is["state"]
			if (alive) printf "  since %s\n  supervisor %d\n  runs %d\n", is["since"], is["pid"], is["runs"]
			if (at != "") print "  last run ended " last (why == "" ? "" : " of " why)
			printf "%s", stages
		}'
	[ "$alive" -eq 1 ] || return 69
}

stop_lane() { # LANE
	configure "$1" || exit
	told='' limit=$((head_grace + grace + 30))
	while running "$dir"; do
		[ "$limit" -gt 0 ] || die 75 "$lane has not ended"
		pid=$(sed -n 's/^pid //p' "$dir/state" 2>/dev/null)
		if [ -z "$told" ] && [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
			printf '%d\n' "$pid" >"$dir/stop"
			kill -TERM "$pid"
			told=1
		elif [ -z "$told" ] && [ -d "/proc/${pid:-none}" ]; then
			die 77 "$lane is process $pid, of another user"
		fi
		limit=$((limit - 1))
		sleep 1
	done
}
