package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/fdio"
	"sf2loki/pkg/sysexits"
)

func TestMetricsFileIsWrittenRegularly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.prom")
	synctest.Test(t, func(t *testing.T) {
		app := NewApp("x")
		n := app.Metrics.Counter("n_total", "N.").WithLabelValues()
		app.common.metricsFile = path
		stop, err := app.startMetrics()
		if err != nil {
			t.Fatal(err)
		}
		has := func(line string) bool {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(data), line)
		}
		if !has("\nsf2loki_n_total{instance_name=\"\"} 0\n") {
			t.Error("not written at the start")
		}
		n.Add(3)
		time.Sleep(fileInterval + time.Second)
		synctest.Wait()
		if !has("\nsf2loki_n_total{instance_name=\"\"} 3\n") {
			t.Error("not written after the interval")
		}
		stop()
		if err := app.Metrics.writeLast(sysexits.TempFail); err != nil {
			t.Fatal(err)
		}
		if !has("sf2loki_run_exit_status{instance_name=\"\",program=\"x\"} 75\n") {
			t.Error("the end is not in the file")
		}
	})
}

func TestDrain(t *testing.T) {
	tests := []struct {
		name  string
		end   func(app *App, cancel context.CancelCauseFunc)
		after time.Duration
		cause error
	}{
		{"signal", func(_ *App, cancel context.CancelCauseFunc) { cancel(errors.New("x")) }, 25 * time.Second, ErrGraceOver},
		{"reader gone", func(app *App, _ context.CancelCauseFunc) { app.setGone() }, 0, fdio.ErrReaderGone},
		{"reader gone while draining", func(app *App, cancel context.CancelCauseFunc) {
			cancel(errors.New("x"))
			time.AfterFunc(time.Second, app.setGone)
		}, time.Second, fdio.ErrReaderGone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				app := NewApp("x")
				ctx, cancel := context.WithCancelCause(t.Context())
				work, stop := app.Drain(ctx, 25*time.Second)
				defer stop()
				time.Sleep(time.Minute)
				if work.Err() != nil {
					t.Fatal("ended before it was asked to")
				}
				start := time.Now()
				tt.end(app, cancel)
				<-work.Done()
				if took := time.Since(start); took != tt.after || context.Cause(work) != tt.cause {
					t.Errorf("ended after %v by %v, want %v by %v", took, context.Cause(work), tt.after, tt.cause)
				}
			})
		})
	}
}

func TestProgressLine(t *testing.T) {
	var out bytes.Buffer
	term := &terminal{w: &out}
	term.progress("10 rows")
	term.progress("20 rows")
	term.Write([]byte("a message\n"))
	term.Write([]byte("another\n"))
	want := clearLine + "10 rows" + clearLine + "20 rows" + clearLine + "a message\nanother\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgressNeedsTerminal(t *testing.T) {
	app := NewApp("x")
	var out bytes.Buffer
	app.term = &terminal{w: &out}
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	app.Stderr, app.common.logFormat = f, "text"
	app.Progress("10 rows")
	if out.Len() != 0 {
		t.Errorf("a progress line in a file: %q", out.String())
	}
}

func TestRunID(t *testing.T) {
	now := time.UnixMilli(0x0123456789ab)
	a, b := newRunID(now), newRunID(now)
	if want := regexp.MustCompile(`^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`); !want.MatchString(a) {
		t.Errorf("run id %q does not match %v", a, want)
	}
	if a == b {
		t.Error("two runs have one id")
	}
}

func TestHints(t *testing.T) {
	if sysexits.WithHint(nil, "x") != nil {
		t.Error("a hint makes an error of nil")
	}
	err := sysexits.WithHint(sysexits.Errorf(sysexits.NoPerm, "log in"), "grant it")
	if sysexits.Of(err) != sysexits.NoPerm || sysexits.Hint(err) != "grant it" || err.Error() != "log in" {
		t.Errorf("status %d, hint %q, text %q", sysexits.Of(err), sysexits.Hint(err), err)
	}
}

func TestOneLine(t *testing.T) {
	const in = " a\nb\r\x1b[31mc\x00\u0085\u2028d\ufffdé\n"
	if got, want := oneLine(in), "a; b  [31mc   d\ufffdé"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What libraries print by themselves is no line of the program's.
func TestStrayLog(t *testing.T) {
	var out strings.Builder
	app := &App{Log: slog.New(slog.NewTextHandler(&out, nil))}
	if n, err := (strayLog{app}).Write([]byte("Unsolicited response\n")); n != 21 || err != nil || out.String() != "" {
		t.Errorf("%d, %v, printed %q", n, err, out.String())
	}
	app.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	(strayLog{app}).Write([]byte("Unsolicited response\n"))
	if !strings.Contains(out.String(), `text="Unsolicited response"`) {
		t.Errorf("at debug: %q", out.String())
	}
}

func TestReadFileIsBounded(t *testing.T) {
	if _, err := readFile("/dev/zero", 1000); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := readFile(path, 4); err != nil || string(data) != "1234" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		`{"a":"é\u0000"}`:         `{"a":"é\u0000"}`,
		"a\x1b[31mb":              `"a\x1b[31mb"`,
		"a\tb":                    `"a\tb"`,
		"line\nkey  position":     `"line\nkey  position"`,
		"right to left \u202e ok": `"right to left \u202e ok"`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
