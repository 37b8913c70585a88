package azure_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/azure"
	"sf2loki/pkg/checkpoint/checkpointtest"
	"sf2loki/pkg/sysexits"
)

var key = azure.Environment{Account: "account", Key: base64.StdEncoding.EncodeToString([]byte("key"))}

func store(t testing.TB, text string, env azure.Environment) checkpoint.Store {
	t.Helper()
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := azure.New(loc, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func location(c *checkpointtest.Cloud) string {
	return "azblob://container/some/state.json?endpoint=" + url.QueryEscape(c.URL+"/account")
}

func open(t testing.TB, c *checkpointtest.Cloud) checkpoint.Store { return store(t, location(c), key) }

func TestConformance(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) func() checkpoint.Store {
		c := checkpointtest.NewAzure(t)
		return func() checkpoint.Store { return open(t, c) }
	})
}

func refusal(status int, code string) checkpointtest.Trouble {
	return checkpointtest.Trouble{Status: status, Header: map[string]string{"x-ms-error-code": code}}
}

func TestFaults(t *testing.T) {
	checkpointtest.RunFaults(t, "account/container/some/state.json", checkpointtest.NewAzure, open, []checkpointtest.Refusal{
		{Trouble: refusal(404, "ContainerNotFound"), Code: sysexits.Config, Text: "the container container does not exist"},
		{Trouble: refusal(403, "AuthenticationFailed"), Code: sysexits.NoPerm, Text: "403 AuthenticationFailed"},
		{Trouble: refusal(409, "LeaseIdMissing"), Code: sysexits.Config, Text: "409 LeaseIdMissing"},
		{Trouble: refusal(503, "ServerBusy"), Code: sysexits.Unavailable, Text: "503 ServerBusy"},
	})
}

func TestSecrets(t *testing.T) {
	c := checkpointtest.NewAzure(t)
	connection := "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=" + key.Key + ";BlobEndpoint=" + c.URL + "/account"
	for name, env := range map[string]azure.Environment{
		"connection string": {ConnectionString: connection},
		"signature":         {Account: "account", SASToken: "?sv=2024&sig=secret"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t, location(c), env)
			if _, err := s.Put(t.Context(), []byte("{}"), ""); err != nil {
				t.Error(err)
			}
			c.Remove("account/container/some/state.json")
		})
	}
	for name, env := range map[string]azure.Environment{
		"connection string": {ConnectionString: "secret"},
		"key":               {Account: "account", Key: "secret!"},
		"key alone":         {Key: key.Key},
	} {
		_, _, err := store(t, location(c), env).Get(t.Context())
		if sysexits.Of(err) != sysexits.Config || strings.Contains(err.Error(), "secret") {
			t.Errorf("bad %s: %v", name, err)
		}
	}
}
