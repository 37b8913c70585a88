package scripts_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A configuration file is data, and each program gets its own part of it.
func TestSettings(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.plan("sf-pull", "environment")
		l.plan("loki-push", "environment")
		l.plan("ckpt", "environment")
		l.configure("prod", "SF2LOKI_SECOND=0.01", "SF2LOKI_METRICS=127.0.0.1:9100",
			`SF_PULL_A=$(touch evil) ; touch evil & `+"`touch evil`"+` "x' \ # no comment`,
			`  SF_PULL_B="in quotes "`, `SF_PULL_C='  '`, "SF_PULL_D=", "LOKI_PUSH_TOKEN=secret", "HTTPS_PROXY=http://proxy:1", "\tCKPT_GRACE=5s\r")
		s := l.run()
		if status := s.wait(); status != 64 {
			t.Errorf("status %d", status)
		}
		got := l.stages()
		for _, want := range []string{
			`sf-pull env SF_PULL_A=$(touch evil) ; touch evil & ` + "`touch evil`" + ` "x' \ # no comment`,
			"sf-pull env SF_PULL_B=in quotes ", "sf-pull env SF_PULL_C=  ", "sf-pull env SF_PULL_D=", "sf-pull env SF_PULL_FOLLOW=true",
			"loki-push env LOKI_PUSH_TOKEN=secret", "loki-push env LOKI_PUSH_ON_DEAD_LETTER_ERROR=stop", "loki-push env LOKI_PUSH_SPOOL_BYTES=1GiB",
			"loki-push env LOKI_PUSH_SPOOL_RETENTION=30d", "ckpt env CKPT_GRACE=5s", "ckpt env CKPT_LEDGER=" + l.dir + "/prod.ledger",
			"sf-pull env SF_PULL_METRICS_LISTEN=127.0.0.1:9100", "loki-push env LOKI_PUSH_METRICS_LISTEN=127.0.0.1:9101", "ckpt env CKPT_METRICS_LISTEN=127.0.0.1:9102",
			"sf-pull env HTTPS_PROXY=http://proxy:1", "ckpt env HTTPS_PROXY=http://proxy:1", "ckpt env CKPT_INSTANCE=" + hostname(t) + "-prod",
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("no line %q", want)
			}
		}
		for _, bad := range []string{"sf-pull env LOKI_PUSH", "ckpt env LOKI_PUSH", "loki-push env SF_PULL", "ckpt env SF_PULL", "sf-pull env CKPT"} {
			if strings.Contains(got, bad) {
				t.Errorf("another's setting: %s", bad)
			}
		}
		evil, err := filepath.Glob("evil")
		must(t, err)
		if len(evil) > 0 {
			t.Error("the configuration was evaluated")
		}
		if strings.Contains(s.log(), "secret") {
			t.Errorf("the log tells the secret: %s", s.log())
		}
	})
}

// A job leaves metrics where the lane's configuration asks for them, each
// program in a file and under a name of its own.
func TestMetricsOfJobs(t *testing.T) {
	in(t, these("bash"), func(t *testing.T, l *lane) {
		l.plan("sf-pull", "environment")
		l.plan("loki-push", "environment")
		l.plan("ckpt", "environment")
		metrics := filepath.Join(l.dir, "metrics")
		l.configure("prod", "SF2LOKI_METRICS_DIR="+metrics, "SF_PULL_METRICS_FILE=of-the-lane.prom")
		if status, out := l.ask("check"); status != 78 || !strings.Contains(out, "FAIL  prod: SF2LOKI_METRICS_DIR: "+metrics+" is no directory") {
			t.Errorf("check: %d, %s", status, out)
		}
		must(t, os.Mkdir(metrics, 0o755))
		if status, out := l.ask("check"); status != 0 {
			t.Errorf("check: %d, %s", status, out)
		}
		l.ask("backfill", "prod", "--since", "2026-01-01", "--until", "2026-01-02")
		got := l.stages()
		for program, prefix := range map[string]string{"sf-pull": "SF_PULL_", "loki-push": "LOKI_PUSH_", "ckpt": "CKPT_"} {
			for _, want := range []string{
				prefix + "METRICS_FILE=" + metrics + "/sf2loki-prod-backfill-" + program + ".prom",
				prefix + "INSTANCE=" + hostname(t) + "-prod-backfill-" + program,
			} {
				if !strings.Contains(got, program+" env "+want+"\n") {
					t.Errorf("no line %q", want)
				}
			}
		}
	})
}

// A backfill keeps the lane's limits of traffic (Z26).
func TestLimitsOfJobs(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		limits := []string{"LOKI_PUSH_MAX_BYTES_PER_SECOND=1kB", "LOKI_PUSH_DAILY_BYTES=1MB", "LOKI_PUSH_DAILY_FILE=/srv/day", "LOKI_PUSH_MAX_LINES_PER_SECOND=7"}
		for _, program := range []string{"sf-pull", "loki-push", "ckpt"} {
			l.plan(program, "environment")
		}
		l.configure("prod", limits...)
		l.ask("backfill", "prod", "--since", "2026-01-01", "--until", "2026-01-02")
		got := l.stages()
		for _, want := range limits {
			if !strings.Contains(got, "loki-push env "+want+"\n") {
				t.Errorf("no line %q", want)
			}
		}
	})
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	must(t, err)
	return name
}

// Settings of the environment hold where the file has none, those of the file win.
func TestSettingsOfTheEnvironment(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		l.plan("sf-pull", "environment")
		l.configure("prod", "SF_PULL_A=file")
		l.env = []string{"SF_PULL_A=environment", "SF_PULL_B=environment"}
		s := l.run()
		s.wait()
		if got := l.stages(); !strings.Contains(got, "env SF_PULL_A=file\n") || !strings.Contains(got, "env SF_PULL_B=environment\n") {
			t.Errorf("stages:\n%s", got)
		}
	})
}

func TestWrongSettings(t *testing.T) {
	tests := []struct{ line, want string }{
		{"hello", ":12: a line is NAME=VALUE"},
		{"SF_PULL_A = x", ":12: SF_PULL_A  is no name of a setting"},
		{"sf_pull_a=x", ":12: sf_pull_a is no name"},
		{"=x", ":12:  is no name"},
		{"PATH=/tmp", ":12: unknown setting PATH"},
		{"LD_PRELOAD=x", ":12: unknown setting LD_PRELOAD"},
		{"SF2LOKI_SORCE=elf", ":12: unknown setting SF2LOKI_SORCE"},
		{"SF2LOKI_SOURCE=elf", ":12: SF2LOKI_SOURCE is there twice"},
		{"SF2LOKI_GRACE=5m", `"5m" is no number of seconds`},
		{"SF2LOKI_GRACE=", ""},
		{"SF2LOKI_GRACE=0", ""},
		{"SF2LOKI_GRACE=08", `"08" is no number of seconds`},
		{"SF2LOKI_SECOND=1); system(\"id\"", "SF2LOKI_SECOND is a number"},
		{"SF2LOKI_METRICS=9100", "SF2LOKI_METRICS is ADDR:PORT"},
		{"SF2LOKI_METRICS=127.0.0.1:", "SF2LOKI_METRICS is ADDR:PORT"},
		{"SF2LOKI_METRICS=127.0.0.1:x1", "SF2LOKI_METRICS is ADDR:PORT"},
		{"SF2LOKI_METRICS=[::1]:9100", ""},
		{"SF2LOKI_METRICS=:9100", ""},
		{"SF_PULL_A=1\nSF_PULL_A=2", ":13: SF_PULL_A is there twice"},
	}
	inShells(t, func(t *testing.T, l *lane) {
		for _, test := range tests {
			l.configure("prod", test.line)
			status, out := l.ask("check", "prod")
			if test.want == "" {
				if status != 0 {
					t.Errorf("%s: %d, %s", test.line, status, out)
				}
				continue
			}
			if status != 78 || !strings.Contains(out, test.want) {
				t.Errorf("%s: %d, %s; want %s", test.line, status, out, test.want)
			}
			if status, out := l.ask("run", "prod"); status != 78 || !strings.Contains(out, test.want) {
				t.Errorf("run with %s: %d, %s; want %s", test.line, status, out, test.want)
			}
		}
	})
}

func TestUsage(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		tests := []struct {
			args   []string
			status int
			want   string
		}{
			{nil, 64, "usage: sf2loki run"},
			{[]string{"--help"}, 0, "usage: sf2loki run"},
			{[]string{"start"}, 64, "usage:"},
			{[]string{"stop"}, 64, "which lane?"},
			{[]string{"run", "--now"}, 64, "unknown flag --now"},
			{[]string{"run", "none"}, 78, "none.conf: no such file"},
			{[]string{"run", "-"}, 64, "unknown flag -"},
			{[]string{"check", "a b"}, 78, "a lane's name is letters"},
			{[]string{"status", "../conf/.conf"}, 78, "a lane's name is letters"},
		}
		for _, test := range tests {
			if status, out := l.ask(test.args...); status != test.status || !strings.Contains(out, test.want) {
				t.Errorf("%q: %d, %s; want %d, %s", test.args, status, out, test.status, test.want)
			}
		}
		must(t, os.Remove(filepath.Join(l.dir, "conf", "prod.conf")))
		if status, out := l.ask("run"); status != 78 || !strings.Contains(out, "there is no") {
			t.Errorf("without any: %d, %s", status, out)
		}
	})
}

func TestRunDirectoryThatCannotBeMade(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		must(t, os.WriteFile(filepath.Join(l.dir, "run"), nil, 0o600))
		if status, out := l.ask("run", "prod"); status != 73 || !strings.Contains(out, "cannot be made or written") {
			t.Errorf("%d, %s", status, out)
		}
	})
}

// check looks at each lane, and at what only one of them may have.
func TestCheck(t *testing.T) {
	inShells(t, func(t *testing.T, l *lane) {
		if status, out := l.ask("check"); status != 0 || out != "PASS  prod: sf-pull elf, positions in "+l.dir+"/prod.json\n" {
			t.Errorf("%d, %s", status, out)
		}
		if got := l.stages(); strings.Contains(got, "start") || !strings.Contains(got, "sf-pull elf --plan=static\n") {
			t.Errorf("check started something, or asked for no plan:\n%s", got)
		}

		empty := filepath.Join(l.dir, "empty")
		must(t, os.WriteFile(empty, nil, 0o600))
		l.configure("open", "LOKI_PUSH_TOKEN=x", "SF2LOKI_METRICS=:9100")
		must(t, os.Chmod(filepath.Join(l.dir, "conf", "open.conf"), 0o646))
		l.configure("files", "SF_PULL_CLIENT_SECRET_FILE="+empty, "LOKI_PUSH_TOKEN_FILE=/none", "LOKI_PUSH_METRICS_FILE=/none/m.prom")
		l.configure("ports", "SF2LOKI_METRICS=:9102")
		l.configure("spool", "SF2LOKI_RETRY_MIN=1")
		text := strings.ReplaceAll(read(t, l.dir+"/conf/spool.conf"), "spool-spool", "spool-prod")
		text = strings.ReplaceAll(text, "LOKI_PUSH_URL=http://127.0.0.1:1\n", "")
		text = strings.ReplaceAll(text, l.dir+"/spool.json", l.dir+"/none/spool.json")
		must(t, os.WriteFile(l.dir+"/conf/spool.conf", []byte(text), 0o600))
		status, out := l.ask("check")
		if status != 78 {
			t.Errorf("status %d", status)
		}
		for _, want := range []string{
			"PASS  prod: ", "PASS  open: ", "PASS  ports: ",
			"WARN  open: " + l.dir + "/conf/open.conf holds a secret and may be read by everybody",
			"WARN  open: " + l.dir + "/conf/open.conf may be written by everybody",
			"FAIL  files: SF_PULL_CLIENT_SECRET_FILE: " + empty + " is missing, empty or unreadable",
			"FAIL  files: LOKI_PUSH_TOKEN_FILE: /none is missing",
			"FAIL  spool: LOKI_PUSH_URL is missing", "FAIL  spool: " + l.dir + "/none/spool.json: its directory does not exist",
			"FAIL  all lanes: metrics port 9102 is that of more than one",
			"FAIL  all lanes: spool " + l.dir + "/spool-prod is that of more than one",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no line %q in\n%s", want, out)
			}
		}
		if strings.Count(out, "FAIL") != 6 {
			t.Errorf("other failures:\n%s", out)
		}
	})
}

// What may go wrong one day is told, and is no fault.
func TestCheckWarns(t *testing.T) {
	in(t, these("dash"), func(t *testing.T, l *lane) {
		secret := filepath.Join(l.dir, "secret")
		must(t, os.WriteFile(secret, []byte("x"), 0o600))
		text := strings.ReplaceAll(read(t, l.dir+"/conf/prod.conf"), "STATE="+l.dir+"/prod.json", "STATE=prod.json")
		text += "LOKI_PUSH_TOKEN_FILE=" + secret + "\nLOKI_PUSH_CA_FILE=/etc/passwd\n"
		must(t, os.WriteFile(l.dir+"/conf/prod.conf", []byte(text), 0o600))
		const relative = "WARN  prod: SF2LOKI_STATE: prod.json is no absolute path: which file it is depends on where sf2loki starts\n"
		const pass = "PASS  prod: sf-pull elf, positions in prod.json\n"
		if status, out := l.ask("check"); status != 0 || out != relative+pass {
			t.Errorf("%d, %s", status, out)
		}
		must(t, os.Chmod(secret, 0o644))
		open := "WARN  prod: LOKI_PUSH_TOKEN_FILE: " + secret + " may be read by everybody\n"
		if status, out := l.ask("check"); status != 0 || out != open+relative+pass {
			t.Errorf("%d, %s", status, out)
		}
	})
}

// What the programs say of a lane counts.
func TestCheckAsksThePrograms(t *testing.T) {
	in(t, these("busybox"), func(t *testing.T, l *lane) {
		l.configure("second")
		l.plan("sf-pull check-plans", "78")
		status, out := l.ask("check")
		if status != 78 || !strings.Contains(out, "FAIL  all lanes: sf-pull: status 78 was asked for") {
			t.Errorf("overlap: %d, %s", status, out)
		}
		l.plan("sf-pull elf", "64")
		must(t, os.WriteFile(l.dir+"/second.json", []byte("{"), 0o600))
		l.plan("ckpt list", "78")
		status, out = l.ask("check", "second")
		if status != 78 || !strings.Contains(out, "FAIL  second: sf-pull elf --plan=static: status 64: sf-pull: status 64 was asked for") ||
			!strings.Contains(out, "second.json cannot be read; see ckpt doctor") {
			t.Errorf("%d, %s", status, out)
		}
	})
}

// A store that is no file is exported before sf-pull starts, and an export
// that fails is never taken for a first start.
func TestStoreThatIsNoFile(t *testing.T) {
	in(t, these("bash"), func(t *testing.T, l *lane) {
		text := strings.ReplaceAll(read(t, l.dir+"/conf/prod.conf"), "SF2LOKI_STATE="+l.dir+"/prod.json", "SF2LOKI_STATE=s3://bucket/key?region=x")
		must(t, os.WriteFile(l.dir+"/conf/prod.conf", []byte(text), 0o600))
		l.plan("ckpt export", "69")
		s := l.run()
		s.awaitLog(1, `stage=sf-pull status=69 retry_in=1s`)
		if strings.Contains(l.stages(), "sf-pull start") {
			t.Error("sf-pull was started")
		}
		l.plan("ckpt export", "0")
		l.awaitStages(1, `sf-pull start \d+ elf --resume `+l.dir+`/run/prod/resume.json$`)
		l.awaitStages(1, `ckpt start \d+ commit s3://bucket/key\?region=x$`)
	})
}

// The manual page names the settings that the script knows, and no others.
func TestManualOfSettings(t *testing.T) {
	names := func(text, pattern string) map[string]bool {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return found
	}
	page := names(read(t, "../man/sf2loki.conf.5"), `(?m)^\.It .*?\bSF2LOKI_([A-Z_]+)`)
	for name := range names(read(t, "../man/sf2loki.conf.5"), `(?m)^\.It Ev SF2LOKI_[A-Z_]+ , SF2LOKI_([A-Z_]+)$`) {
		page[name] = true
	}
	list := regexp.MustCompile(`(?s)known_setting\(\) \{(.*?)\n\}`).FindString(read(t, "lib/conf.sh"))
	known := names(list, `([A-Z_]{4,})`)
	delete(known, "LOKI_") // of the prefix that the case takes off
	if len(known) < 10 {
		t.Fatalf("only these are known: %v", known)
	}
	if !maps.Equal(page, known) {
		t.Errorf("the page has %v\nthe script %v", page, known)
	}
}
