package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/lease"
)

func newDoctor(app *cli.App) *ffcli.Command {
	const usage = "ckpt doctor STORE [--lease LEASE] [--json]"
	fs := app.FlagSet("ckpt doctor")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	leaseName := fs.String("lease", "", "examine `LEASE` too")
	return &ffcli.Command{
		Name: "doctor", ShortUsage: usage, ShortHelp: "examine a store without touching its document", FlagSet: fs,
		Exec: func(ctx context.Context, args []string) error {
			store, _, err := storeAnd(app, args, 0, 0, usage)
			if err != nil {
				return err
			}
			findings := checkpoint.Doctor(ctx, store)
			if *leaseName != "" {
				findings = append(findings, examineLease(ctx, app, *leaseName)...)
			}
			for _, f := range findings {
				if err := app.PrintFinding(*asJSON, f.Check, string(f.Level), f.Detail, f.Cure, f.Code); err != nil {
					return err
				}
			}
			return checkpoint.Verdict(findings)
		},
	}
}

// examineLease looks at the place of a lease, then at the lease, and changes
// nothing.
func examineLease(ctx context.Context, app *cli.App, text string) []checkpoint.Finding {
	const check = "lease"
	fail := func(err error) checkpoint.Finding {
		return checkpoint.Failed(check, err, "give the lease a place of its own, which all contenders can read and write")
	}
	findings, err := inspectPlace(ctx, app, text)
	if err != nil {
		return []checkpoint.Finding{fail(err)}
	}
	if checkpoint.Verdict(findings) != nil {
		return findings
	}
	backend, err := openLease(app, text, 0)
	if err != nil {
		return append(findings, fail(err))
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	r, _, err := backend.Read(ctx)
	finding := checkpoint.Finding{Check: check, Level: checkpoint.Pass}
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		finding.Detail = "nobody has taken it yet"
	case errors.Is(err, lease.ErrCorrupt):
		finding.Level, finding.Detail = checkpoint.Warn, err.Error()
		finding.Cure = "remove it; without that the next leader waits for the ttl"
	case err != nil:
		finding = fail(err)
	case r.Holder == "":
		finding.Detail = fmt.Sprintf("nobody holds it, epoch %d", r.Epoch)
	default:
		finding.Detail = fmt.Sprintf("held by %s, epoch %d, renewed %s", r.Holder, r.Epoch, r.Renewed.UTC().Format(time.RFC3339))
	}
	return append(findings, finding)
}

// inspectPlace looks at what is where a lease is kept, if that is a store. NFS
// is as good as any other file system for a lease.
func inspectPlace(ctx context.Context, app *cli.App, text string) ([]checkpoint.Finding, error) {
	loc, err := checkpoint.ParseLocation(text)
	if err != nil || loc.Scheme == "k8s" {
		return nil, err
	}
	store, err := openStore(app, text)
	if err != nil {
		return nil, err
	}
	var findings []checkpoint.Finding
	if prober, ok := store.(checkpoint.Prober); ok {
		findings = prober.Inspect(ctx)
	}
	findings = slices.DeleteFunc(findings, func(f checkpoint.Finding) bool {
		return f.Level != checkpoint.Fail // the lease itself says the rest
	})
	for i := range findings {
		findings[i].Check = "lease " + findings[i].Check
	}
	return findings, nil
}
