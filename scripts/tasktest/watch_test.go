package tasktest

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"sf2loki/scripts/testbed"
)

var watchTasks = []task{
	{"What is the pipeline doing right now?", []int{26}, rightNow},
	{"Prove that a day is complete", []int{22}, complete},
	{"Loki was down for six hours", []int{23}, lokiDown},
	{"The org's API calls run out", []int{24}, callsRunOut},
	{"Upgrade, and roll back", []int{25}, upgrade},
}

func rightNow(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.configured()
	end := b.begin("exec sf2loki run hourly 2>log")
	testbed.Eventually(b.T, "a position is stored", func() bool { return strings.Contains(b.state("hourly.json"), "Login") })
	b.sh(0, blocks[0], "hourly: running", "loki-push ", "org=prod:eventlogfile:Login", `"delivered":12`, "ok")
	b.sh(0, blocks[1])
	testbed.Eventually(b.T, "a snapshot is printed", func() bool { return strings.Contains(b.read("log"), `"delivered":12`) })
	end()
}

func complete(b *bench, blocks []string) {
	b.acme("--hours", "75", "--rows", "3", "--types", "Login,API")
	b.month()
	b.Set("SF_PULL_LOOKBACK=4d")
	b.configured()
	b.caughtUp(b.rows(""))
	b.sh(0, blocks[0], "hourly:", "complete")
	// A file that came later, and that nobody has pulled yet.
	late, err := json.Marshal(map[string]any{"type": "Login", "start": b.here("2026-06-01") + "T05:00:00Z", "rows": 4, "seed": 9, "created": time.Now().UTC().Add(-3 * time.Hour)})
	if err != nil {
		b.T.Fatal(err)
	}
	b.control("hour", string(late))
	hole := b.sh(65, blocks[0], "sf2loki audit hourly --fill")
	b.sh(65, blocks[1])
	if !strings.HasPrefix(b.read("audit.json"), "{") {
		b.T.Errorf("JSON: %s", b.read("audit.json"))
	}
	fill := regexp.MustCompile(`sf2loki audit hourly --fill[^\n]*`).FindString(hole.Stdout + hole.Stderr)
	b.sh(0, fill)
	b.sh(0, blocks[0], "complete")
}

// configured has the lane of the documentation, hourly, not running.
func (b *bench) configured() {
	b.lane("hourly", sections(b.T, "sf2loki-tasks.7")["A lane that runs all the time"][0])
}

// caughtUp runs the lane until Loki holds so many rows, and stops it.
func (b *bench) caughtUp(rows int) {
	b.T.Helper()
	end := b.begin("exec sf2loki run hourly")
	testbed.Eventually(b.T, "the lane has caught up", func() bool { return b.stored(acmeLoki, "7", `{source="eventlogfile"}`) == rows })
	if r := end(); r.Status != 0 {
		b.T.Errorf("%v", r)
	}
}

func lokiDown(b *bench, blocks []string) {
	b.org("--hours", "4", "--rows", "4", "--types", "Login")
	b.Write("etc/sf2loki/loki.token", "secret\n")
	b.loki(acmeLoki, "--multi-tenant", "--fail", "12:503")
	b.settings()
	b.sh(0, live)
	b.holds(`{event_type="Login"}`, b.rows("Login"))
	r := b.sh(0, blocks[0], "org=prod:eventlogfile:Login")
	if strings.Contains(r.Stdout, "FILE") {
		b.T.Errorf("letters: %v", r)
	}
}

func callsRunOut(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.control("usage", `{"used":80000,"max":100000}`)
	b.sh(75, blocks[0], `"Max":100000`, "less than 25%", "hint: wait, or lower --api-reserve")
	b.control("usage", `{"used":5,"max":100000}`)
	b.sh(0, blocks[0])
	b.holds(`{event_type="Login"}`, b.rows("Login"))
}

// upgrade has stand-ins for what needs root; the rest is real.
func upgrade(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "4", "--types", "Login")
	b.program("apt", `echo "apt $*" >>"$HOME/done"`)
	b.program("systemctl", `echo "systemctl $*" >>"$HOME/done"`)
	b.configured()
	toHourly := strings.ReplaceAll(live, "prod.json", "hourly.json")
	b.sh(0, toHourly)
	b.sh(0, blocks[0], "PASS  hourly:")
	// What a newer release has written is not for this one.
	b.sh(0, `sed -i 's/{\\"v\\":1/{\\"v\\":2/' /var/lib/sf2loki/hourly.json`)
	newer := b.state("hourly.json")
	b.sh(78, toHourly, "a newer one wrote it")
	if b.state("hourly.json") != newer {
		b.T.Error("the newer positions were touched")
	}
	b.sh(0, blocks[1])
	b.sh(0, "export SF_PULL_REPORT=again; "+toHourly)
	if n := b.account("again", "written"); n != 0 {
		b.T.Errorf("%d rows were read again", n)
	}
	want := "apt install ./sf2loki_1.4.0_amd64.deb\nsystemctl restart sf2loki@*\napt install --allow-downgrades ./sf2loki_1.3.0_amd64.deb\nsystemctl restart sf2loki@*"
	if got := b.read("done"); got != want {
		b.T.Errorf("as root: %s", got)
	}
}
