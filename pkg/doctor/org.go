package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// login logs in, and tells where that led to.
func (d *doctor) login(ctx context.Context) {
	c := d.cfg.Client
	id, err := c.OrgID(ctx)
	if err != nil {
		d.refused("login", Fail, err)
		return
	}
	t, err := c.Token(ctx)
	if err != nil {
		d.refused("login", Fail, err)
		return
	}
	d.orgID = id
	d.found("login", Pass, fmt.Sprintf("%s at %s: org %s, %s", d.cfg.Login, c.LoginHost(), id, t.InstanceURL), "")
	d.host(t.InstanceURL)
}

// host holds the hosts of login and org against what the flags say.
func (d *doctor) host(instance string) {
	u, err := url.Parse(instance)
	if err != nil {
		return
	}
	sandbox := strings.Contains(u.Host, ".sandbox.") || strings.Contains(u.Host, "--")
	switch login := d.cfg.Client.LoginHost(); {
	case sandbox && d.cfg.Environment != "" && !strings.EqualFold(d.cfg.Environment, "sandbox"):
		d.found("host", Warn, fmt.Sprintf("%s is a sandbox, and --environment says %s", u.Host, d.cfg.Environment), "say --environment sandbox, or log in to another org")
	case login == "login.salesforce.com" || login == "test.salesforce.com":
		d.found("host", Pass, "logins at "+login+" go on until the org prevents them; its own host would be --login-url "+instance, "")
	default:
		d.found("host", Pass, "the org's own", "")
	}
}

// The clocks may differ by as much. A login by JWT fails from three minutes on.
const (
	quietSkew = 30 * time.Second
	jwtSkew   = 3 * time.Minute
)

func (d *doctor) clock(context.Context) {
	skew := d.cfg.Client.Skew()
	side := "ahead of"
	if skew < 0 {
		side = "behind"
	}
	detail := fmt.Sprintf("Salesforce's clock is %s %s this machine's", skew.Abs().Round(time.Second), side)
	switch {
	case skew == 0 && d.orgID == "":
		d.found("clock", Skip, "not logged in", "")
	case skew.Abs() <= quietSkew:
		d.found("clock", Pass, "it agrees with Salesforce's", "")
	case skew.Abs() < jwtSkew:
		d.found("clock", Warn, detail, "have the clock set by NTP: logins by JWT fail from three minutes on")
	default:
		d.found("clock", Warn, detail+"; logins by JWT fail", "have the clock set by NTP")
	}
}

// fewCalls is the part of the day's calls below which there is a warning.
const fewCalls = 0.2

// calls looks at what is left of the day's API calls.
func (d *doctor) calls(ctx context.Context) {
	const check = "api_calls"
	raw, err := d.cfg.Client.Get(ctx, "limits/")
	if salesforce.KindOf(err) == salesforce.KindPermission {
		u := d.cfg.Client.Usage()
		if u.Max == 0 {
			d.found(check, Warn, "this user may not see the limits: "+err.Error(), "grant View Setup and Configuration")
			return
		}
		d.left(check, float64(u.Left()), float64(u.Max))
		return
	}
	if err != nil {
		d.refused(check, Fail, err)
		return
	}
	var limits map[string]struct{ Max, Remaining *float64 }
	l := limits["DailyApiRequests"]
	if json.Unmarshal(raw, &limits) == nil {
		l = limits["DailyApiRequests"]
	}
	if l.Max == nil || l.Remaining == nil || *l.Max == 0 {
		d.found(check, Warn, "the org does not tell its limit of API calls", "")
		return
	}
	d.left(check, *l.Remaining, *l.Max)
}

func (d *doctor) left(check string, left, most float64) {
	detail := fmt.Sprintf("%.0f of %.0f calls of the last 24 hours are left", left, most)
	if r := d.cfg.Reserve; left < math.Floor(r.Percent/100*most)+float64(r.Calls) {
		d.add(Finding{Check: check, Level: Fail, Detail: detail + ", less than --api-reserve", Cure: "wait, or lower --api-reserve", Code: sysexits.TempFail})
		return
	}
	if left < math.Ceil(fewCalls*most) {
		d.found(check, Warn, detail, "see what else calls the org; --api-reserve leaves some to others")
		return
	}
	d.found(check, Pass, detail, "")
}

// roomLeast is what a large file takes.
const roomLeast = 1 << 30

// tmpdir writes a temporary file.
func (d *doctor) tmpdir(context.Context) {
	f, err := os.CreateTemp(d.cfg.TmpDir, "sf-pull-")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.WriteString("x")
		f.Close()
	}
	if err != nil {
		d.refused("tmpdir", d.bad(Files), sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("--tmpdir: %w", err)))
		return
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(d.cfg.TmpDir, &fs); err != nil {
		d.found("tmpdir", Pass, d.cfg.TmpDir+" can be written", "")
		return
	}
	free := int64(fs.Bavail) * fs.Bsize
	detail := fmt.Sprintf("%s has room for %d MiB", d.cfg.TmpDir, free>>20)
	if free < roomLeast {
		d.found("tmpdir", Warn, detail, "a day of a busy event type is more than a gibibyte, times --concurrency: give another --tmpdir")
		return
	}
	d.found("tmpdir", Pass, detail, "")
}
