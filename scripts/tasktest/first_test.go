package tasktest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/scripts/testbed"
)

var firstTasks = []task{
	{"Try it with one file", []int{1}, tryOneFile},
	{"Look before sending", []int{2}, lookFirst},
	{"What has the org got, may I have it, what will it cost?", []int{3}, whatIsThere},
	{"Test a rule before it is used", []int{27}, testRule},
	{"Rehearse with the real positions", []int{28}, rehearse},
}

// csv writes a file of logins that are so old.
func (b *bench) csv(name string, rows int, ago time.Duration) {
	b.T.Helper()
	var text strings.Builder
	text.WriteString(`"EVENT_TYPE","TIMESTAMP_DERIVED","USER_NAME","REQUEST_ID"` + "\n")
	for i := range rows {
		at := time.Now().UTC().Add(time.Duration(i)*time.Second - ago)
		fmt.Fprintf(&text, `"Login","%s","user%d@acme.example","r%d"`+"\n", at.Format("2006-01-02T15:04:05.000Z"), i, i)
	}
	b.Write(name, text.String())
}

func tryOneFile(b *bench, blocks []string) {
	b.loki("http://localhost:3100")
	b.csv("Login.csv", 30, 40*24*time.Hour)
	b.sh(0, blocks[0])
	if n := b.stored("http://localhost:3100", "", `{event_type="Login"}`); n != 30 {
		b.T.Errorf("%d stored", n)
	}
	// Without the flag one line says what there is to do about it.
	b.sh(0, strings.Replace(blocks[0], " --ts clamp", "", 1), "30 of 30 entries are older than Loki takes: --ts clamp")
}

func lookFirst(b *bench, blocks []string) {
	b.csv("Login.csv", 3000, time.Hour)
	r := b.sh(0, blocks[0], `"event_type": "Login"`, "would_be_delivered=3000")
	if strings.Contains(r.Stderr, "ERROR") || strings.Contains(r.Stderr, "broken pipe") {
		b.T.Errorf("%v", r)
	}
}

func whatIsThere(b *bench, blocks []string) {
	b.acme("--hours", "4", "--rows", "5")
	b.sh(0, blocks[0], "PASS  login:", "PASS  push:", "PASS  compare-and-swap", `"kind":"topic"`, `"api_calls":`, `"streams":`, `"tmp_bytes":`)
	b.configured()
	b.sh(0, blocks[1], "PASS  hourly", "login", "push", "compare-and-swap")
}

func testRule(b *bench, blocks []string) {
	b.csv("Login.csv", 5, time.Hour)
	b.Write("salt", "pepper\n")
	b.Write("rules.yaml", "eventlogfile:\n  - {action: hash, fields: [USER_NAME]}\n")
	b.sh(1, blocks[0], `< {"EVENT_TYPE":"Login"`, `> {"EVENT_TYPE":"Login"`)
	if text := b.read("after"); strings.Contains(text, "@acme.example") || strings.Count(text, "\n") != 4 {
		b.T.Errorf("after: %s", text)
	}
}

func rehearse(b *bench, blocks []string) {
	b.acme("--hours", "3", "--rows", "10")
	b.sh(0, `sf-pull elf --event-type Login --resume /var/lib/sf2loki/prod.json | loki-push | ckpt commit /var/lib/sf2loki/prod.json`)
	before := b.read(b.here("/var/lib/sf2loki/prod.json"))
	r := b.sh(0, strings.TrimSpace(blocks[0])+" | ckpt commit /var/lib/sf2loki/prod.json")
	b.holds(`{source="eventlogfile"}`, b.rows("Login"))
	if b.read(b.here("/var/lib/sf2loki/prod.json")) != before {
		b.T.Errorf("a position moved: %v", r)
	}
}

// The file with the settings names secrets and holds none.
func TestSettingsHoldNoSecret(t *testing.T) {
	data, err := os.ReadFile(testbed.Root + "/man/sf2loki-tasks.7")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"CLIENT_SECRET=", "PUSH_TOKEN=", "PASSWORD=", "PRIVATE_KEY="} {
		if strings.Contains(string(data), word) {
			t.Errorf("%s", word)
		}
	}
}
