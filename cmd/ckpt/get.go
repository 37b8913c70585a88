package main

import (
	"context"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

func newGet(app *cli.App) *ffcli.Command {
	const usage = "ckpt get STORE KEY"
	return &ffcli.Command{
		Name: "get", ShortUsage: usage, ShortHelp: "print the position of a key", FlagSet: app.FlagSet("ckpt get"),
		Exec: func(ctx context.Context, args []string) error {
			store, rest, err := storeAnd(app, args, 1, 1, usage)
			if err != nil {
				return err
			}
			doc, _, err := checkpoint.Load(ctx, store)
			if err != nil {
				return err
			}
			value, ok := doc.Get(rest[0])
			if !ok {
				return noKey(store, rest[0])
			}
			_, err = fmt.Fprintln(app.Stdout, value)
			return err
		},
	}
}

func noKey(store checkpoint.Store, key string) error {
	return sysexits.WithHint(sysexits.Errorf(sysexits.DataErr, "%s has no key %q", store, key), "ckpt list shows those that it has")
}
