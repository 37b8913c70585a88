# shellcheck shell=sh disable=SC2034,SC2154 # the parts share their variables
# Messages, and the configuration of lanes; see sf2loki.conf(5).

lane=-
log() { # LEVEL TEXT, without a percent sign
	date -u "+time=%Y-%m-%dT%H:%M:%SZ level=$1 program=sf2loki lane=$lane${job:+ job=$job} $2" >&2
}

complain() { # TEXT: say what is wrong with the configuration
	printf 'sf2loki: %s\n' "$1" >&2
	return 78
}

die() { # STATUS TEXT
	complain "$2"
	exit "$1"
}

# settings FILE PREFIX...: export those settings of FILE that begin with a
# PREFIX. The file is data: nothing in it is ever evaluated.
settings() {
	settings_file=$1
	shift
	settings_line=0
	settings_seen=' '
	if ! [ -f "$settings_file" ] || ! [ -r "$settings_file" ]; then
		complain "$settings_file: no such file, or it cannot be read" || return
	fi
	while IFS= read -r line || [ -n "$line" ]; do
		settings_line=$((settings_line + 1))
		line=${line#"${line%%[![:space:]]*}"}
		line=${line%"${line##*[![:space:]]}"}
		case $line in '' | '#'*) continue ;; esac
		setting "$@" || return
	done <"$settings_file"
}

# setting PREFIX...: take in $line.
setting() {
	case $line in *=*) ;; *) wrong 'a line is NAME=VALUE' || return ;; esac
	name=${line%%=*} value=${line#*=}
	case $name in
	'' | *[!A-Z0-9_]* | [0-9]*) wrong "$name is no name of a setting" || return ;;
	SF2LOKI_*) known_setting "$name" || wrong "unknown setting $name" || return ;;
	SF_PULL_?* | LOKI_PUSH_?* | CKPT_?* | DL_REPLAY_?*) ;;
	HTTP_PROXY | HTTPS_PROXY | NO_PROXY | SSL_CERT_FILE | SSL_CERT_DIR | GOMEMLIMIT | GOMAXPROCS | TZ) ;;
	*) wrong "unknown setting $name" || return ;;
	esac
	case $settings_seen in *" $name "*) wrong "$name is there twice" || return ;; esac
	settings_seen="$settings_seen$name "
	case $value in
	\"*\" | \'*\')
		value=${value#?}
		value=${value%?}
		;;
	esac
	for prefix in "$@"; do
		# shellcheck disable=SC2163 # the variable that $name names
		case $name in "$prefix"*) export "$name=$value" ;; esac
	done
}

wrong() { complain "$settings_file:$settings_line: $1"; }

known_setting() {
	case ${1#SF2LOKI_} in
	SOURCE | STATE | LEASE | METRICS | METRICS_DIR | RUN_DIR | HEAD_GRACE | GRACE) ;;
	RETRY_MIN | RETRY_MAX | LOUD_MIN | LOUD_MAX | GOOD | SECOND) ;;
	*) return 1 ;;
	esac
}

default() { # NAME VALUE: export NAME unless it is set
	eval "[ -n \"\${$1+set}\" ]" || export "$1=$2"
}

conf_dir=${SF2LOKI_CONF_DIR:-/etc/sf2loki}

conf_of() { # LANE: its configuration file
	case $1 in
	*/* | *.conf) printf '%s\n' "$1" ;;
	*) printf '%s/%s.conf\n' "$conf_dir" "$1" ;;
	esac
}

# configure LANE: read what concerns this script, and complain of what is wrong.
configure() {
	conf=$(conf_of "$1")
	lane=${conf##*/}
	lane=${lane%.conf}
	case $lane in
	'' | *[!A-Za-z0-9._-]* | [.-]*) die 78 "$conf: a lane's name is letters, digits, dots, dashes and underscores" ;;
	esac
	settings "$conf" SF2LOKI_ || return
	[ -n "${SF2LOKI_SOURCE:-}" ] ||
		complain "$conf: SF2LOKI_SOURCE is missing: what sf-pull is to pull, elf for example" || return
	state=${SF2LOKI_STATE:-/var/lib/sf2loki/$lane.json}
	dir=${SF2LOKI_RUN_DIR:-${RUNTIME_DIRECTORY:-/run/sf2loki}}/$lane
	head_grace=${SF2LOKI_HEAD_GRACE:-5}
	grace=${SF2LOKI_GRACE:-32}
	retry_min=${SF2LOKI_RETRY_MIN:-1}
	retry_max=${SF2LOKI_RETRY_MAX:-300}
	loud_min=${SF2LOKI_LOUD_MIN:-300}
	loud_max=${SF2LOKI_LOUD_MAX:-3600}
	good=${SF2LOKI_GOOD:-600}
	second=${SF2LOKI_SECOND:-1}
	for number in "$head_grace" "$grace" "$retry_min" "$retry_max" "$loud_min" "$loud_max" "$good"; do
		case $number in '' | *[!0-9]* | 0?* | ???????*) complain "$conf: \"$number\" is no number of seconds" || return ;; esac
	done
	case $second in *[!0-9.]* | *.*.* | .) complain "$conf: SF2LOKI_SECOND is a number" || return ;; esac
	port=${SF2LOKI_METRICS:-:1}
	port=${port##*:}
	case ${SF2LOKI_METRICS:-:1}/$port in *:*/ | *:*/0* | *:*/*[!0-9]* | *:*/??????*) port='' ;; *:*/*) ;; *) port='' ;; esac
	[ -n "$port" ] || complain "$conf: SF2LOKI_METRICS is ADDR:PORT" || return
}
