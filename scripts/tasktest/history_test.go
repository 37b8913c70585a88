package tasktest

import (
	"strconv"
	"strings"
	"time"
)

var historyTasks = []task{
	{"Last month, beside a lane that is live", []int{6}, backfill},
	{"A backfill that survives logout and failure", []int{7}, unattended},
	{"Add an event type, with history", []int{14}, addType},
	{"Read again from an earlier time", []int{15}, rewind},
	{"Keep copies of the positions, and go back to one", []int{15}, copies},
	{"A daily file is made anew, or an hour gets a second file", []int{29}, regenerated},
}

// month has the month of the documentation, June, be the last three days.
func (b *bench) month() {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	b.places = append(b.places, "2026-06-01", today.Add(-72*time.Hour).Format("2006-01-02"), "2026-06-02", today.Add(-48*time.Hour).Format("2006-01-02"), "2026-07-01", today.Format("2006-01-02"))
}

const live = `sf-pull elf --event-type Login --resume /var/lib/sf2loki/prod.json |
	loki-push --spool /var/spool/sf2loki/prod | ckpt commit /var/lib/sf2loki/prod.json`

func (b *bench) state(name string) string { return b.read(b.here("/var/lib/sf2loki/" + name)) }

func backfill(b *bench, blocks []string) {
	b.acme("--hours", "70", "--rows", "4", "--types", "Login", "--daily")
	b.month()
	b.Set("SF_PULL_LOOKBACK=3h")
	b.sh(0, live)
	position, before := b.state("prod.json"), b.stored(acmeLoki, "7", `{event_type="Login"}`)
	if plan := b.sh(0, blocks[0]); !strings.Contains(plan.Stdout, `"files": 2,`) && !strings.Contains(plan.Stdout, `"files": 3,`) {
		b.T.Errorf("%v", plan)
	}
	if after := b.stored(acmeLoki, "7", `{event_type="Login"}`); after <= before {
		b.T.Errorf("%d entries, and then %d", before, after)
	}
	if b.state("prod.json") != position {
		b.T.Error("the live position moved")
	}
	b.sh(0, "ckpt list /var/lib/sf2loki/backfill.json", "org=prod:window=")
	if r := b.sh(0, lastPlan(b)); !strings.Contains(r.Stdout, `"files": 0,`) {
		b.T.Errorf("something is left: %v", r)
	}
	b.sh(1, "dl-replay list --spool /var/spool/sf2loki/prod | grep .")
	b.configured()
	n := b.stored(acmeLoki, "7", `{event_type="Login"}`)
	b.sh(0, blocks[1])
	b.holds(`{event_type="Login"}`, n)
	b.sh(0, "ckpt list /var/lib/sf2loki/hourly.json", "org=prod:window=")
}

// lastPlan is the command that tells what is left of a backfill.
func lastPlan(b *bench) string {
	blocks := sections(b.T, "sf2loki-tasks.7")["A backfill that survives logout and failure"]
	return blocks[1]
}

func unattended(b *bench, blocks []string) {
	b.acme("--hours", "70", "--rows", "4", "--types", "Login", "--daily")
	b.month()
	// There is no service manager here: the stand-in takes the options that are
	// given, and starts again as Restart=on-failure does.
	b.program("systemd-run", `
while [ $# -gt 0 ]; do
	case $1 in
	--unit=sf-backfill | --uid=sf2loki) ;;
	-p)
		case $2 in
		EnvironmentFile=*) env=${2#*=} ;;
		Restart=on-failure | RestartSec=5min | StartLimitIntervalSec=0) ;;
		*) echo "unknown property $2" >&2; exit 1 ;;
		esac
		shift ;;
	-*) echo "unknown option $1" >&2; exit 1 ;;
	*) break ;;
	esac
	shift
done
set -a
. "$env"
n=0
until "$@"; do n=$((n + 1)); [ $n -lt 3 ] || exit 1; done
`)
	b.control("fault", `{"match":"/LogFile","times":1,"status":500,"body":"[]"}`)
	b.sh(0, blocks[0])
	r := b.sh(0, blocks[1], "org=prod:window=")
	if !strings.Contains(r.Stdout, `"files": 0,`) {
		b.T.Errorf("something is left: %v", r)
	}
	if b.stored(acmeLoki, "7", `{event_type="Login"}`) == 0 {
		b.T.Error("nothing has arrived")
	}
}

func addType(b *bench, blocks []string) {
	b.acme("--hours", "30", "--rows", "4", "--types", "Login,API,Search")
	b.month()
	b.Set("SF_PULL_LOOKBACK=3h")
	b.sh(0, live)
	logins := b.stored(acmeLoki, "7", `{event_type="Login"}`)
	b.sh(0, blocks[0])
	b.holds(`{event_type="Login"}`, logins)
	b.holds(`{event_type="API"}`, b.rows("API"))
	b.sh(0, blocks[1])
	b.sh(0, "ckpt list /var/lib/sf2loki/prod.json", "org=prod:eventlogfile:ReportExport")
}

func rewind(b *bench, blocks []string) {
	b.acme("--hours", "30", "--rows", "4", "--types", "Login")
	b.month()
	b.Set("SF_PULL_LOOKBACK=3d")
	b.sh(0, live)
	b.sh(0, blocks[0])
	b.sh(0, "export SF_PULL_REPORT=again; "+live)
	if n := b.account("again", "written"); n != b.rows("Login") {
		b.T.Errorf("%d rows were read again", n)
	}
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}

// account is a number of the account of a whole run.
func (b *bench) account(file, field string) int {
	b.T.Helper()
	text := b.sh(0, `jq -r 'select(.scope == "run").`+field+`' `+file).Stdout
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		b.T.Fatalf("%s of %s: %q", field, file, text)
	}
	return n
}

func copies(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.sh(0, live)
	export, restore, _ := strings.Cut(strings.TrimSpace(blocks[0]), "\n")
	b.sh(0, export)
	kept := b.sh(0, "ckpt export /var/lib/sf2loki/prod.json").Stdout
	b.sh(0, "ckpt set /var/lib/sf2loki/prod.json org=prod:eventlogfile:Login 2020-01-01")
	b.sh(0, restore)
	if got := b.sh(0, "ckpt export /var/lib/sf2loki/prod.json").Stdout; got != kept {
		b.T.Errorf("%s is not %s", got, kept)
	}
}

func regenerated(b *bench, blocks []string) {
	b.acme("--hours", "70", "--rows", "4", "--types", "Login", "--daily")
	daily := strings.Replace(live, "elf", "elf --interval Daily --lookback 3d", 1)
	b.sh(0, daily)
	n := b.stored(acmeLoki, "7", `{event_type="Login"}`)
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(-48 * time.Hour)
	b.control("day", `{"type":"Login","start":"`+day.Format(time.RFC3339)+`","created":"`+time.Now().UTC().Add(-6*time.Minute).Format(time.RFC3339)+`"}`)
	listed := b.sh(0, strings.Replace(blocks[0], "list", "list --lookback 3d", 1)).Stdout
	if strings.Count(listed, day.Format("2006-01-02T")) < 2 {
		b.T.Errorf("listed: %s", listed)
	}
	b.sh(0, "export SF_PULL_REPORT=again; "+daily)
	if b.account("again", "written") == 0 {
		b.T.Error("the new file was not read")
	}
	b.holds(`{event_type="Login"}`, n)
	b.sh(1, "dl-replay list --spool /var/spool/sf2loki/prod | grep .")
}
