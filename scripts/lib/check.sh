# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# sf2loki check: what can be told of lanes without asking anybody.

# check_lanes LANE...: each lane by itself, then all of them together.
check_lanes() {
	plans=$(mktemp -d) || exit 73
	trap 'rm -rf "$plans"' EXIT
	trap 'exit 75' TERM INT HUP
	each check_lane "$@"
	result=$?
	compare_lanes || [ "$result" -ne 0 ] || result=78
	exit "$result"
}

row() { # LEVEL TEXT
	printf '%s  %s: %s\n' "$1" "$lane" "$2"
	[ "$1" != FAIL ] || faults=$((faults + 1))
}

check_lane() { # LANE
	faults=0
	if ! configure "$1"; then
		lane=${lane:-$1}
		row FAIL 'the configuration is wrong'
		exit 78
	fi
	for program in sf-pull loki-push ckpt flock mkfifo awk od; do
		command -v "$program" >/dev/null || row FAIL "$program is not in PATH"
	done
	check_files || faults=$((faults + $?))
	check_store
	check_plan
	# For the comparison of lanes: what only one of them may have.
	{
		(settings "$conf" LOKI_PUSH_ && printf 'spool %s\n' "${LOKI_PUSH_SPOOL:-/var/spool/sf2loki/$lane}")
		printf 'run directory %s\n' "$dir"
		for port in 0 1 2; do
			[ -z "${SF2LOKI_METRICS:-}" ] || printf 'metrics port %s\n' "$((${SF2LOKI_METRICS##*:} + port))"
		done
	} >"$plans/$lane.own" 2>/dev/null
	[ "$faults" -eq 0 ] || exit 78
	row PASS "sf-pull $SF2LOKI_SOURCE, positions in $state"
}

# check_files: files that a setting names must be there, and a secret must not
# be in a file that everybody may read.
check_files() (
	settings "$conf" SF_PULL_ LOKI_PUSH_ CKPT_ || exit
	for name in $(env | sed -n 's/^\(SF_PULL_[A-Z_]*_FILE\)=..*/\1/p; s/^\(LOKI_PUSH_[A-Z_]*_FILE\)=..*/\1/p'); do
		case $name in *_METRICS_FILE | *_DAILY_FILE) continue ;; esac
		eval "file=\$$name" # a name that a pattern has let through
		if ! [ -r "$file" ] || ! [ -s "$file" ]; then row FAIL "$name: $file is missing, empty or unreadable"; fi
	done
	if env | grep -Eq '^(SF_PULL|LOKI_PUSH)_(CLIENT_SECRET|PRIVATE_KEY|TOKEN|PASSWORD)=.' &&
		[ -n "$(find -L "$conf" -perm -004)" ]; then
		row WARN "$conf holds a secret and may be read by everybody"
	fi
	[ -n "${LOKI_PUSH_URL:-}${LOKI_PUSH_CONFIG:-}" ] || row FAIL 'LOKI_PUSH_URL is missing'
	exit "$faults"
)

# check_store: a document or what it goes into. Whether it can be written is
# for ckpt doctor, which tries.
check_store() {
	case $state in *://*) return ;; esac
	if [ -e "$state" ]; then
		(scope CKPT_ && exec ckpt list "$state") >/dev/null 2>&1 || row FAIL "$state cannot be read; see ckpt doctor"
	elif ! [ -d "$(dirname "$state")" ]; then
		row FAIL "$state: its directory does not exist"
	fi
}

# check_plan: sf-pull says what it would pull, without a request.
check_plan() {
	(
		scope SF_PULL_
		exec sf-pull "$SF2LOKI_SOURCE" --plan=static
	) >"$plans/$lane.plan" 2>"$plans/error" ||
		row FAIL "sf-pull $SF2LOKI_SOURCE --plan=static: status $?: $(tail -n 1 "$plans/error")"
}

# compare_lanes: what only one lane may have, and events that two would pull.
compare_lanes() {
	lane='all lanes' faults=0
	cat "$plans"/*.own 2>/dev/null | sort | uniq -d >"$plans/twice"
	while IFS= read -r thing; do
		row FAIL "$thing is that of more than one"
	done <"$plans/twice"
	set -- "$plans"/*.plan
	if [ $# -gt 1 ]; then
		sf-pull check-plans "$@" >"$plans/overlap" 2>&1 || row FAIL "$(tail -n 1 "$plans/overlap")"
	fi
	[ "$faults" -eq 0 ]
}
