# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# sf2loki audit: has everything that Salesforce offers arrived?

# audit [LANE...] --since TIME --until TIME | --days-ago N [FLAG...]: the worst
# status of all lanes; a hole is worse than too early.
audit() {
	lanes='' since='' until='' loki='' fill='' pages='' bad=''
	left=$# want=''
	while [ "$left" -gt 0 ]; do
		take_audit_word "$1" || set -- "$@" "$1"
		shift
		left=$((left - 1))
	done
	case $want in '' | another) ;; *) bad="--$want needs a value" ;; esac
	if [ -n "$bad" ] || [ -z "$since" ] || [ -z "$until" ]; then
		die 64 "audit: ${bad:---since TIME and --until TIME, or --days-ago N, have to be given}"
	fi
	if [ -n "$fill" ]; then
		[ "$(printf '%s' "$lanes" | wc -l)" -eq 1 ] || die 64 'audit --fill: which lane?'
		fill_lane "${lanes%?}" "$@"
		exit
	fi
	[ -n "$lanes" ] || lanes=$(all_lanes) || exit
	audit_dir=$(mktemp -d) || exit 73
	apart "$audit_dir" audit_lanes "$@"
}

# audit_lanes [FLAG...]: each in a process of its own.
audit_lanes() {
	result=0
	while IFS= read -r l; do
		[ -n "$l" ] || continue
		(audit_lane "$l" "$@") </dev/null
		one=$?
		case $one in
		0) ;;
		75) [ "$result" -ne 0 ] || result=75 ;;
		*) [ "$result" -ne 0 ] && [ "$result" -ne 75 ] || result=$one ;;
		esac
	done <<END
$lanes
END
	exit "$result"
}

# take_audit_word WORD: take a lane, a flag that this script needs itself, or its
# value; false when it is for ckpt audit, or sf-pull. Only for those of ckpt
# audit without a value is known that a lane may follow.
take_audit_word() {
	case $want in
	'') ;;
	another) want='' && return 1 ;;
	days-ago) want='' && days_ago "$1" && return ;;
	*)
		eval "$want=\$1" # one of three names
		want=''
		return
		;;
	esac
	case $1 in
	--loki) loki=1 ;;
	--fill) fill=1 ;;
	--since=*) since=${1#*=} ;;
	--until=*) until=${1#*=} ;;
	--pages=*) pages=${1#*=} ;;
	--days-ago=*) days_ago "${1#*=}" ;;
	--since | --until | --pages | --days-ago) want=${1#--} ;;
	--json | -json | --accept-discarded | --strict-counts | --allow-empty | -*=*) return 1 ;;
	-*) want=another && return 1 ;;
	*)
		lanes="$lanes$1
"
		;;
	esac
}

# days_ago N: make the window that day, UTC.
days_ago() {
	case $1 in '' | *[!0-9]* | 0?* | ?????*)
		bad="--days-ago $1: it is a number of days"
		return 0
		;;
	esac
	midnight=$(($(date -u +%s) / 86400 * 86400))
	since=$(date -u -d "@$((midnight - $1 * 86400))" +%Y-%m-%dT%H:%M:%SZ)
	until=$(date -u -d "@$((midnight - $1 * 86400 + 86400))" +%Y-%m-%dT%H:%M:%SZ)
}

# audit_lane LANE [FLAG...]: in a process of its own.
audit_lane() {
	lane_argument=$1
	shift
	job=audit
	configure "$lane_argument" || exit
	find_ledger
	if [ "$SF2LOKI_SOURCE" = elf ]; then
		(
			scope SF_PULL_
			default SF_PULL_INTERVAL Hourly
			exec sf-pull list --since "$since" --until "$until"
		) >"$audit_dir/listing" || exit
	else
		: >"$audit_dir/listing"
		set -- --allow-empty "$@"
	fi
	if [ -n "$loki" ]; then
		ask_loki >"$audit_dir/counts" || exit
		set -- --counts "$audit_dir/counts" "$@"
	fi
	if [ -n "$pages" ]; then
		window=$(printf '%s' "${since}_$until" | tr -c 'A-Za-z0-9.\n-' _)
		set -- --page "$pages/audit-$lane-$window.html" "$@"
	fi
	spool=$(scope LOKI_PUSH_ && default_spool && printf '%s' "$LOKI_PUSH_SPOOL")
	[ -d "$spool" ] && set -- --spool "$spool" "$@"
	word=$(shell_word "$lane_argument")
	case " $* " in
	*' --json '* | *' -json '*) ;;
	*) printf '%s\n' "$lane:" ;;
	esac
	scope CKPT_
	unset CKPT_LEDGER
	exec ckpt audit --listing "$audit_dir/listing" --since "$since" --until "$until" --ledger "$ledger" \
		--pull-command "sf2loki audit $word --fill" --replay-command "sf2loki replay $word" "$@"
}

find_ledger() {
	ledger=$(
		scope CKPT_
		default_ledger
		printf '%s' "${CKPT_LEDGER:-}"
	)
	[ -n "$ledger" ] || die 78 "$lane: CKPT_LEDGER is missing: without a ledger nothing can be audited"
	[ -f "$ledger" ] || die 75 "$lane: there is no ledger $ledger yet"
}

# ask_loki: how many entries it holds of the lane's source and org.
ask_loki() (
	scope LOKI_PUSH_ SF_PULL_
	case $SF2LOKI_SOURCE in
	elf) label=eventlogfile ;;
	objects) label=eventlog_objects ;;
	*) label=$SF2LOKI_SOURCE ;;
	esac
	selector="source=\"$label\""
	case ${SF_PULL_ORG:-} in
	'' | *[!A-Za-z0-9._-]*) ;;
	*) selector="$selector,org=\"$SF_PULL_ORG\"" ;;
	esac
	scope LOKI_PUSH_
	exec loki-push count --since "$since" --until "$until" --selector "{$selector}"
)

# shell_word TEXT: TEXT as one word of a shell.
shell_word() {
	case $1 in
	*[!A-Za-z0-9._/-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
	*) printf '%s' "$1" ;;
	esac
}

# fill_lane LANE [FLAG...]: a job that pulls the window again, whatever was
# pulled of it before: no position is read, and the lane's own does not move.
# What Loki has already folds.
fill_lane() {
	job=fill
	begin_lane "$1"
	shift
	find_ledger
	state=$ledger.fill.json
	export CKPT_LEDGER="$ledger"
	once --since "$since" --until "$until" "$@"
}
