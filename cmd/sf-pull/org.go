package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
)

// orgFlags say which org is meant, how to log in to it, and what its records
// are labelled with.
type orgFlags struct {
	loginURL, auth, clientID, username, audience, apiVersion, orgID string
	org, environment, lane, reserve                                 string
	clientSecret, privateKey                                        *cli.SecretFlag
}

func (o *orgFlags) register(app *cli.App, fs *flag.FlagSet) {
	fs.StringVar(&o.loginURL, "login-url", "", "the org's My Domain, `URL`")
	cli.EnumVar(fs, &o.auth, "auth", string(salesforce.JWT), "how to log in, `METHOD`", string(salesforce.JWT), string(salesforce.ClientCredentials))
	fs.StringVar(&o.clientID, "client-id", "", "consumer `KEY` of the connected app")
	o.clientSecret = cli.Secret(app, fs, "client-secret", "consumer secret of the connected app")
	fs.StringVar(&o.username, "username", "", "jwt: `NAME` of the user to log in as")
	o.privateKey = cli.Secret(app, fs, "private-key", "jwt: private key of the app's certificate, PEM")
	fs.StringVar(&o.audience, "audience", "", "jwt: `URL` of the audience, if not login or test.salesforce.com")
	fs.StringVar(&o.apiVersion, "api-version", salesforce.DefaultAPIVersion, "`VERSION` of the REST API")
	fs.StringVar(&o.orgID, "org-id", "", "the `ID` that the org must have")
	fs.StringVar(&o.org, "org", "", "`NAME` of the org in keys, labels and metrics")
	fs.StringVar(&o.environment, "environment", "", "`NAME` of the environment, a label; sandbox chooses test.salesforce.com")
	fs.StringVar(&o.reserve, "api-reserve", "10%", "leave `PART` of the day's API calls to others: a percentage or a number")
}

// namePattern keeps names apart from what separates them in keys.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func (o *orgFlags) check() error {
	for _, n := range []struct{ flag, value string }{{"org", o.org}, {"lane", o.lane}} {
		if n.value != "" && !namePattern.MatchString(n.value) {
			return cli.Usagef("--%s %q: a name has letters, digits, dots, dashes and underscores", n.flag, n.value)
		}
	}
	return nil
}

// keyPrefix is what the keys of this org and lane begin with.
func (o *orgFlags) keyPrefix() string {
	prefix := ""
	if o.org != "" {
		prefix += "org=" + o.org + ":"
	}
	if o.lane != "" {
		prefix += "lane=" + o.lane + ":"
	}
	return prefix
}

// identity is what the labels say; id is the org's own.
func (o *orgFlags) identity(id string) shape.Identity {
	return shape.Identity{Environment: o.environment, Org: o.org, OrgID: id}
}

// checkLogin names a flag without which there is no login.
func (o *orgFlags) checkLogin() error {
	jwt := o.auth == string(salesforce.JWT)
	switch {
	case o.clientID == "":
		return cli.Usagef("--client-id is required: the consumer key of the connected app")
	case jwt && o.username == "":
		return cli.Usagef("--username is required: --auth jwt logs in as a user")
	case jwt && !o.privateKey.Set():
		return cli.Usagef("--private-key-file is required: --auth jwt signs with the key of the app's certificate")
	case !jwt && !o.clientSecret.Set():
		return cli.Usagef("--client-secret-file is required with --auth client-credentials")
	}
	return nil
}

// connect logs in and returns the org's client and id.
func (o *orgFlags) connect(ctx context.Context, app *cli.App, hooks salesforce.Hooks) (*salesforce.Client, string, error) {
	client, err := o.client(app, hooks, salesforce.Retry{})
	if err != nil {
		return nil, "", err
	}
	id, err := client.OrgID(ctx)
	return client, id, err
}

// client makes the org's client, without a request.
func (o *orgFlags) client(app *cli.App, hooks salesforce.Hooks, retry salesforce.Retry) (*salesforce.Client, error) {
	app.Metrics.SetOrg(o.org)
	limitMemory(app, 0)
	if err := o.checkLogin(); err != nil {
		return nil, err
	}
	reserve, err := o.parseReserve()
	if err != nil {
		return nil, err
	}
	cfg := salesforce.Config{
		LoginURL: o.loginURL, Environment: o.environment, Auth: salesforce.Auth(o.auth), ClientID: o.clientID,
		Username: o.username, Audience: o.audience, APIVersion: o.apiVersion, OrgID: o.orgID,
		Reserve: reserve, Retry: retry, UserAgent: "sf2loki/sf-pull", Log: app.Log, Hooks: hooks, Secrets: app.Secrets,
	}
	if o.privateKey.Set() {
		cfg.PrivateKey = o.privateKey.Value
	}
	if o.clientSecret.Set() {
		cfg.ClientSecret = o.clientSecret.Value
	}
	return salesforce.New(cfg)
}

func (o *orgFlags) parseReserve() (salesforce.Reserve, error) {
	r, err := salesforce.ParseReserve(o.reserve)
	if err != nil {
		return r, cli.Usagef("--api-reserve: %v", err)
	}
	return r, nil
}

// fixedOrgID is the id of --org-id, for runs without an org.
func (o *orgFlags) fixedOrgID() (string, error) {
	if o.orgID == "" {
		return "", nil
	}
	id, err := salesforce.OrgID(o.orgID)
	if err != nil {
		return "", sysexits.Wrap(sysexits.Config, fmt.Errorf("--org-id: %w", err))
	}
	return id, nil
}
