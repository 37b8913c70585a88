# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# sf2loki check: what can be told of lanes without asking anybody, and with
# --live what everybody says who is asked.

check_lanes() { # LANE...
	plans=$(mktemp -d) || exit 73
	apart "$plans" check_all "$@"
}

# check_all LANE...: each lane by itself, then all of them together. Ends with
# the highest status.
check_all() {
	highest=0
	for l in "$@"; do
		(check_lane "$l")
		higher $?
	done
	compare_lanes
	higher $?
	if [ -n "$live" ]; then
		for l in "$@"; do
			(ask_lane "$l")
			higher $?
		done
	fi
	exit "$highest"
}

higher() { [ "$1" -le "$highest" ] || highest=$1; }

row() { # LEVEL TEXT
	if [ -n "$json" ]; then
		printf '{"lane":"%s","program":"sf2loki","level":"%s","detail":"%s"}\n' "$lane" "$1" \
			"$(printf '%s' "$2" | tr '\001-\037' ' ' | sed 's/[\\"]/\\&/g')"
	else
		printf '%s  %s: %s\n' "$1" "$lane" "$2"
	fi
	[ "$1" != FAIL ] || faults=$((faults + 1))
}

# reason: why a program has failed, which may have logged something before.
reason() { grep -m 1 '^[a-z0-9-]*: ' "$plans/error" || head -n 1 "$plans/error"; }

check_lane() { # LANE
	faults=0
	if ! configure "$1"; then
		lane=${lane:-$1}
		row FAIL 'the configuration is wrong'
		exit 78
	fi
	for program in sf-pull loki-push ckpt flock awk od; do
		command -v "$program" >/dev/null || row FAIL "$program is not in PATH"
	done
	check_names
	check_files || faults=$((faults + $?))
	check_store
	check_plan
	check_push
	owned >"$plans/$lane.own" 2>/dev/null
	[ "$faults" -eq 0 ] || exit 78
	row PASS "sf-pull $SF2LOKI_SOURCE, positions in $state"
}

# check_names: whatever a program is told to do, it says which variables are
# none of its flags; a completion is made without a look at any of them. What is
# in the environment only is not the lane's.
check_names() {
	for namespace in SF_PULL_ LOKI_PUSH_ CKPT_ DL_REPLAY_; do
		(
			job=check
			scope "$namespace"
			exec "$(program_of "$namespace")" completion bash
		) 2>&1 >/dev/null | sed -n 's/.* msg="unknown environment variable" program=\([a-z-]*\) name=\([A-Z0-9_]*\).*/\1 \2/p'
	done >"$plans/names"
	while read -r program name; do
		if grep -q "^[[:space:]]*$name=" "$conf"; then row FAIL "$conf: $name: $program has no such flag"; fi
	done <"$plans/names"
}

# check_files: files that a setting names must be there, and a secret should not
# be in a file that everybody may read.
check_files() (
	settings "$conf" SF_PULL_ LOKI_PUSH_ CKPT_ || exit
	for name in $(env | sed -n 's/^\(SF_PULL_[A-Z_]*_FILE\)=..*/\1/p; s/^\(LOKI_PUSH_[A-Z_]*_FILE\)=..*/\1/p'); do
		case $name in *_METRICS_FILE | *_DAILY_FILE) continue ;; esac
		eval "file=\$$name" # a name that a pattern has let through
		if ! [ -r "$file" ] || ! [ -s "$file" ]; then
			row FAIL "$name: $file is missing, empty or unreadable"
			continue
		fi
		case $name in
		*_SECRET_FILE | *_KEY_FILE | *_TOKEN_FILE | *_PASSWORD_FILE | *_SALT_FILE)
			[ -z "$(find -L "$file" -perm -004)" ] || row WARN "$name: $file may be read by everybody"
			;;
		esac
	done
	if env | grep -Eq '^(SF_PULL|LOKI_PUSH)_(CLIENT_SECRET|PRIVATE_KEY|TOKEN|PASSWORD)=.' &&
		[ -n "$(find -L "$conf" -perm -004)" ]; then
		row WARN "$conf holds a secret and may be read by everybody"
	fi
	[ -z "$(find -L "$conf" -perm -002)" ] || row WARN "$conf may be written by everybody"
	if [ -n "${SF2LOKI_METRICS_DIR:-}" ] && ! [ -w "$SF2LOKI_METRICS_DIR/." ]; then
		row FAIL "SF2LOKI_METRICS_DIR: $SF2LOKI_METRICS_DIR is no directory, or cannot be written"
	fi
	[ -n "${LOKI_PUSH_URL:-}${LOKI_PUSH_CONFIG:-}" ] || row FAIL 'LOKI_PUSH_URL is missing'
	exit "$faults"
)

# check_store: a document or what it goes into. Whether it can be written is
# for ckpt doctor, which tries.
check_store() {
	case $state in
	*://*) return ;;
	/*) ;;
	*) row WARN "SF2LOKI_STATE: $state is no absolute path: which file it is depends on where sf2loki starts" ;;
	esac
	if [ -e "$state" ]; then
		(scope CKPT_ && exec ckpt list "$state") >/dev/null 2>&1 || row FAIL "$state cannot be read; see ckpt doctor"
	elif ! [ -d "$(dirname "$state")" ]; then
		row FAIL "$state: its directory does not exist"
	fi
}

# check_plan: sf-pull says what it would pull, without a request.
check_plan() {
	(
		job=check
		scope SF_PULL_
		exec sf-pull "$SF2LOKI_SOURCE" --plan=static
	) >"$plans/$lane.plan" 2>"$plans/error" ||
		row FAIL "sf-pull $SF2LOKI_SOURCE --plan=static: status $?: $(reason)"
}

# check_push: loki-push looks at its flags, its labels and its secrets, given
# nothing to push.
check_push() {
	(
		job=check
		scope LOKI_PUSH_
		unset LOKI_PUSH_SPOOL
		exec loki-push --dry-run --allow-empty --log-level warn
	) </dev/null >/dev/null 2>"$plans/error" || row FAIL "loki-push: status $?: $(reason)"
}

# owned: what only one lane may have, one a line.
owned() (
	settings "$conf" SF_PULL_ LOKI_PUSH_ || exit
	default_spool
	[ -z "$LOKI_PUSH_SPOOL" ] || printf 'spool %s\n' "$LOKI_PUSH_SPOOL"
	printf 'run directory %s\n' "$dir"
	[ -z "${SF2LOKI_LEASE:-}" ] || printf 'lease %s\n' "$SF2LOKI_LEASE"
	for port in 0 1 2 ${SF2LOKI_LEASE:+3}; do
		[ -z "${SF2LOKI_METRICS:-}" ] || printf 'metrics port %s\n' "$((${SF2LOKI_METRICS##*:} + port))"
	done
	sed 's/"key":/\n&/g' "$plans/$lane.plan" | sed -n 's/^"key":"\([^"]*\)".*/position \1 of '"$(printf '%s' "$state" | sed 's/[\/&]/\\&/g')"'/p' | sort -u
	# Without the hour label, Loki wants a stream's entries in order.
	[ "${LOKI_PUSH_HOUR_LABEL:-}" != none ] ||
		sed 's/"source":/\n&/g' "$plans/$lane.plan" |
		sed -n 's/^"source":"\([^"]*\)","event_type":"\([^"]*\)".*/\1 \2/p' | sort -u |
			while IFS= read -r stream; do
				case ${LOKI_PUSH_URL:-} in # perhaps with a password
				*://*@*) loki=${LOKI_PUSH_URL%%://*}://${LOKI_PUSH_URL##*@} ;;
				*) loki=${LOKI_PUSH_URL:-} ;;
				esac
				printf '%s\n' "stream of $stream of ${SF_PULL_LOGIN_URL:-an org} in $loki${LOKI_PUSH_TENANT:+, tenant $LOKI_PUSH_TENANT}"
			done
)

# compare_lanes: what only one lane may have, and events that two would pull.
compare_lanes() {
	lane='all lanes' faults=0
	cat "$plans"/*.own 2>/dev/null | sort | uniq -d >"$plans/twice"
	while IFS= read -r thing; do
		row FAIL "$thing is that of more than one"
	done <"$plans/twice"
	set -- "$plans"/*.plan
	if [ $# -gt 1 ]; then
		(cd "$plans" && exec sf-pull check-plans -- *.plan) >"$plans/overlaps" 2>"$plans/error" ||
			[ -s "$plans/overlaps" ] || reason >"$plans/overlaps"
		sed 's/\.plan\( and\|$\)/\1/g' "$plans/overlaps" >"$plans/said"
		while IFS= read -r thing; do
			row FAIL "$thing"
		done <"$plans/said"
	fi
	[ "$faults" -eq 0 ] || return 78
}

#
# --live
#

# ask_lane LANE: Salesforce, Loki, and the store.
ask_lane() {
	configure "$1" 2>/dev/null || exit # has been told
	job=check highest=0
	ask SF_PULL_ sf-pull doctor "$SF2LOKI_SOURCE"
	ask LOKI_PUSH_ loki-push probe
	ask CKPT_ ckpt doctor "$state" ${SF2LOKI_LEASE:+--lease "$SF2LOKI_LEASE"}
	exit "$highest"
}

# ask PREFIX PROGRAM ARG...: have a program examine what it needs, and say of
# each line which lane's it is.
ask() {
	(
		scope "$1"
		shift
		exec "$@" ${json:+--json}
	) >"$plans/said" 2>"$plans/error"
	code=$?
	higher "$code"
	sed -n "s/^{/{\"lane\":\"$lane\",\"program\":\"$2\",/p; s/^\([A-Z]\{4\}  \)/\1$lane: $2: /p; s/^      /&/p" "$plans/said"
	[ "$code" -eq 0 ] || grep -q FAIL "$plans/said" || row FAIL "$2: status $code: $(reason)"
}
