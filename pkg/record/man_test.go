package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// displays returns the literal displays of the manual page, by the section
// that they stand in.
func displays(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../man/sf2loki-record.5")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	section, text, inside := "", "", false
	for _, line := range strings.Split(string(page), "\n") {
		switch {
		case strings.HasPrefix(line, ".Sh ") || strings.HasPrefix(line, ".Ss "):
			section = line[4:]
		case strings.HasPrefix(line, ".Bd -literal"):
			text, inside = "", true
		case line == ".Ed":
			found[section] = append(found[section], text)
			inside = false
		case inside:
			text += strings.ReplaceAll(line, `\e`, `\`) + "\n"
		}
	}
	return found
}

// The examples of the manual page are what the programs read, and, without
// white space, what they write.
func TestManualExamples(t *testing.T) {
	pages := displays(t)
	var records, acks []byte
	for _, section := range []string{"RECORDS", "Accounts", "Run lines"} {
		recs, errs := readAll(strings.NewReader(strings.Join(pages[section], "")))
		if err := errors.Join(errs[:len(errs)-1]...); err != nil || len(recs) == 0 || errs[len(errs)-1] != io.EOF {
			t.Fatalf("%s: %d records, %v", section, len(recs), errs)
		}
		for i := range recs {
			records = AppendRecord(records, &recs[i])
			checkObjects(t, recs[i].Account, recs[i].Run)
		}
	}
	r := NewAckReader(strings.NewReader(strings.Join(pages["ACKNOWLEDGEMENTS"], "")))
	for {
		var a Ack
		err := r.Read(&a)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		acks = AppendAck(acks, &a)
		checkObjects(t, a.Account, a.Run)
	}
	for file, got := range map[string][]byte{"testdata/records.ndjson": records, "testdata/acks.ndjson": acks} {
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the manual page (%v), which has\n%s", file, err, got)
		}
	}
}

func checkObjects(t *testing.T, account, run []byte) {
	t.Helper()
	if account != nil {
		a, err := ParseAccount(account)
		if err != nil || a.Rows != 1000 || a.Settled != (a.Delivered > 0) {
			t.Errorf("account %+v, %v", a, err)
		}
	}
	if run != nil {
		r, err := ParseRun(run)
		if err != nil || r.RunID != "9f6c2d1e" || r.At.IsZero() {
			t.Errorf("run %+v, %v", r, err)
		}
	}
}

// The recipes with jq keep the tokens, accounts, run lines and dead letters of
// the source.
func TestManualRecipes(t *testing.T) {
	in, err := os.ReadFile("testdata/recipes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(text []byte) (kept string, entries int) {
		recs, errs := readAll(bytes.NewReader(text))
		if err := errors.Join(errs[:len(errs)-1]...); err != nil || errs[len(errs)-1] != io.EOF {
			t.Errorf("%v in %s", errs, text)
		}
		for _, rec := range recs {
			kept += string(rec.Key) + "=" + string(rec.Value) + string(rec.Account) + string(rec.Run) + string(rec.PayloadBase64) + "\n"
			if rec.Line != nil && !rec.CheckpointOnly {
				entries++
			}
		}
		return kept, entries
	}
	want, all := tokens(in)
	recipes := 0
	for _, recipe := range displays(t)["EXAMPLES"] {
		if !strings.HasPrefix(recipe, "jq ") {
			continue
		}
		recipes++
		cmd := exec.Command("sh", "-c", recipe)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", recipe, err)
			continue
		}
		if strings.HasPrefix(recipe, "jq -r") {
			if got := strings.Join(strings.Fields(string(out)), " "); got != "2 Login 1 Logout" {
				t.Errorf("%s prints %s", recipe, got)
			}
			continue
		}
		got, entries := tokens(out)
		filter := strings.Contains(recipe, "event_type ==")
		if got != want || !filter && entries != all || filter && entries != 2 {
			t.Errorf("%s: %d entries of %d\n%s", recipe, entries, all, out)
		}
		if bytes.Contains(out, []byte("CLIENT_IP")) && strings.Contains(recipe, "CLIENT_IP") {
			t.Errorf("%s\n%s", recipe, out)
		}
	}
	if recipes != 5 || all != 3 {
		t.Errorf("%d recipes, %d entries", recipes, all)
	}
}
