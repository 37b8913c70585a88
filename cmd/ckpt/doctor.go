package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
)

func newDoctor(app *cli.App) *ffcli.Command {
	const usage = "ckpt doctor STORE [--json]"
	fs := app.FlagSet("ckpt doctor")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	return &ffcli.Command{
		Name: "doctor", ShortUsage: usage, ShortHelp: "examine a store without touching its document", FlagSet: fs,
		Exec: func(ctx context.Context, args []string) error {
			store, _, err := storeAnd(app, args, 0, 0, usage)
			if err != nil {
				return err
			}
			findings := checkpoint.Doctor(ctx, store)
			for _, f := range findings {
				if err := printFinding(app, f, *asJSON); err != nil {
					return err
				}
			}
			return checkpoint.Verdict(findings)
		},
	}
}

func printFinding(app *cli.App, f checkpoint.Finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(app.Stdout).Encode(struct {
			Check  string `json:"check"`
			Level  string `json:"level"`
			Detail string `json:"detail"`
			Cure   string `json:"cure,omitempty"`
			Status int    `json:"status"`
		}{f.Check, string(f.Level), f.Detail, f.Cure, int(f.Code)})
	}
	if _, err := fmt.Fprintf(app.Stdout, "%s  %s: %s\n", f.Level, f.Check, f.Detail); err != nil {
		return err
	}
	if f.Cure == "" {
		return nil
	}
	_, err := fmt.Fprintf(app.Stdout, "      %s\n", f.Cure)
	return err
}
