package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/spool"
)

// Who looks at a large spool can stop.
func TestReadersAreStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ndjson")
	if err := os.WriteFile(path, []byte(`{"line":"x","reason":"too_old"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, command := range []func(*cli.App, *stock) *ffcli.Command{newList, newStats, newShow} {
		app := cli.NewApp("dl-replay")
		c := command(app, newStock(app))
		if err := c.Exec(ctx, []string{path}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// However many groups there are, so many are told apart.
func TestManyGroups(t *testing.T) {
	s := &stats{by: []string{"source", "reason"}}
	groups := map[string]*spool.Summary{}
	for i := range mostGroups + 3 {
		s.group(groups, fmt.Sprint(i)+keySep+"x", spool.Window{}).Records++
	}
	s.group(groups, "x"+keySep+strings.Repeat("x", longGroup), spool.Window{}).Records++
	if other := groups["other"+keySep+"other"]; len(groups) != mostGroups+1 || other == nil || other.Records != 4 {
		t.Errorf("%d groups, other is %+v", len(groups), other)
	}
}
