package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sf2loki/pkg/checkpoint/checkpointtest"
)

// TestCloud runs scripts beside three services: $S3, $GS and $AZ are names of
// stores in them, to which a script may add. deafen makes a service ignore
// conditions; put writes an object; refuse has it answer with a status and a
// code, or only to one method, until heal.
func TestCloud(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cloud", RequireExplicitExec: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			s3, gs, az := checkpointtest.NewS3(t), checkpointtest.NewGCS(t), checkpointtest.NewAzure(t)
			for name, value := range map[string]string{
				"S3QUERY": "?endpoint=" + url.QueryEscape(s3.URL), "STORAGE_EMULATOR_HOST": strings.TrimPrefix(gs.URL, "http://"),
				"AZQUERY":           "?endpoint=" + url.QueryEscape(az.URL+"/test"),
				"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": "/dev/null",
				"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
				"AZURE_STORAGE_ACCOUNT": "test", "AZURE_STORAGE_KEY": "dGVzdA==",
			} {
				env.Setenv(name, value)
			}
			env.Setenv("S3", "s3://bucket/s.json"+env.Getenv("S3QUERY"))
			env.Setenv("GS", "gs://bucket/s.json")
			env.Setenv("AZ", "azblob://container/s.json"+env.Getenv("AZQUERY"))
			env.Values["clouds"] = map[string]*checkpointtest.Cloud{"s3": s3, "gs": gs, "az": az}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"deafen": func(ts *testscript.TestScript, _ bool, args []string) { cloud(ts, args[0]).Deafen() },
			"refuse": func(ts *testscript.TestScript, _ bool, args []string) { refuse(ts, args...) },
			"heal":   func(ts *testscript.TestScript, _ bool, args []string) { cloud(ts, args[0]).Break(nil) },
			"put":    func(ts *testscript.TestScript, _ bool, args []string) { cloud(ts, args[0]).Set(args[1], args[2]) },
		},
	})
}

func cloud(ts *testscript.TestScript, name string) *checkpointtest.Cloud {
	return ts.Value("clouds").(map[string]*checkpointtest.Cloud)[name]
}

// refuse SERVICE STATUS CODE [METHOD]
func refuse(ts *testscript.TestScript, args ...string) {
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	trouble := checkpointtest.Trouble{Status: status, Header: map[string]string{"Content-Type": "application/xml", "x-ms-error-code": args[2]}}
	trouble.Body = "<Error><Code>" + args[2] + "</Code><Message>words</Message></Error>"
	if args[0] == "gs" {
		trouble.Header["Content-Type"] = "application/json"
		trouble.Body = fmt.Sprintf(`{"error":{"code":%d,"message":%q}}`, status, args[2])
	}
	cloud(ts, args[0]).Break(func(r *http.Request) checkpointtest.Trouble {
		if len(args) > 3 && r.Method != args[3] {
			return checkpointtest.Trouble{}
		}
		return trouble
	})
}
