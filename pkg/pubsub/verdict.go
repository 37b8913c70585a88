package pubsub

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// action is what an error of the bus is answered with.
type action int

const (
	again action = iota // a pause, then from the last event that was read
	later               // the same with long pauses: a limit that only time mends
	login               // a new session, once, then as again
	lost                // the position is refused: by the policy
	doubt               // as again, and when it stays so, as lost
	leave               // this topic is given up for now
	abort               // the run ends
	bug                 // as again, and when it stays so, the run ends: the fault is on our side
)

// patience is how often in a row a doubt or a bug is tried again.
const patience = 3

// verdict is what an error of the bus means.
type verdict struct {
	do   action
	exit sysexits.Code
	hint string
}

// codePrefix begins the error codes of the bus.
const codePrefix = "sfdc.platform.eventbus.grpc."

const (
	hintTopic   = "the topic does not exist, or the user may not see it: check its name and the user's permissions"
	hintLicence = "the org has no licence for it: Event Monitoring or Shield are needed for event streams"
	hintManaged = "look at Managed Event Subscriptions in the org's setup"
)

// verdicts go by the trailer error-code, which says more than the gRPC code.
var verdicts = map[string]verdict{
	"service.unavailable":                       {do: again},
	"service.auth.error":                        {do: login, exit: sysexits.NoPerm},
	"service.auth.headers.invalid":              {do: abort, exit: sysexits.Config},
	"service.auth.refresh.invalid":              {do: abort, exit: sysexits.Software},
	"service.protection.stream.limit.triggered": {do: later},
	"service.protection.triggered":              {do: later},
	"service.tenant.license":                    {do: abort, exit: sysexits.NoPerm, hint: hintLicence},
	"concurrent.client.limit.exceeded":          {do: later, hint: "too many clients read the org's bus"},
	"topic.not.found":                           {do: leave, exit: sysexits.Config, hint: hintTopic},
	"topic.meta.permission":                     {do: leave, exit: sysexits.NoPerm, hint: hintTopic},
	"schema.meta.permission":                    {do: leave, exit: sysexits.NoPerm, hint: hintTopic},
	"topic.api.unavailable":                     {do: again},
	"schema.api.unavailable":                    {do: again},
	"topic.validation.empty":                    {do: abort, exit: sysexits.Software},
	"schema.validation.failed":                  {do: bug, exit: sysexits.Software},

	"subscription.fetch.replayid.corrupted":         {do: lost},
	"subscription.fetch.replayid.validation.failed": {do: lost},
	"subscription.fetch.replay.repeated":            {do: again},
	"subscription.limit.exceeded":                   {do: later, hint: "the org's event delivery allocation of 24 hours is used up; events are kept for 72 hours"},
	"subscription.fetch.overflow":                   {do: bug, exit: sysexits.Software},
	"subscription.fetch.requested.events.invalid":   {do: bug, exit: sysexits.Software},
	"subscription.fetch.topic.mismatch":             {do: bug, exit: sysexits.Software},
	"subscription.fetch.request.invalid":            {do: bug, exit: sysexits.Software},
	"subscription.topic.cannot.subscribe":           {do: leave, exit: sysexits.NoPerm, hint: "give the user read permission for the event"},
	"subscription.internal.error":                   {do: again},

	"managed.subscription.already.active":                          {do: later, hint: "another client reads it; after a network failure Salesforce takes some 15 minutes to notice"},
	"managed.subscription.config.stopped":                          {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.config.deleted":                          {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.developer.name.not.found":                {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.subscription.id.not.found":               {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.subscription.id.invalid":                 {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.id.or.developer.name.empty":              {do: abort, exit: sysexits.Config, hint: hintManaged},
	"managed.subscription.fetch.request.events.invalid":            {do: bug, exit: sysexits.Software},
	"managed.subscription.fetch.request.invalid":                   {do: bug, exit: sysexits.Software},
	"managed.subscription.fetch.request.commit.request.restricted": {do: bug, exit: sysexits.Software},
	"managed.subscription.fetch.request.auth.request.restricted":   {do: bug, exit: sysexits.Software},
}

// byCode is for errors without the trailer, which come from whoever stands in
// front of the bus, and for codes that are not known.
var byCode = map[codes.Code]verdict{
	codes.Unavailable:      {do: again, exit: sysexits.Unavailable},
	codes.DeadlineExceeded: {do: again, exit: sysexits.Unavailable},
	codes.Unauthenticated:  {do: login, exit: sysexits.NoPerm},
	codes.NotFound:         {do: leave, exit: sysexits.Config, hint: hintTopic},
	codes.PermissionDenied: {do: leave, exit: sysexits.NoPerm, hint: hintTopic},
	codes.Unimplemented:    {do: abort, exit: sysexits.Config, hint: "--endpoint does not lead to the Pub/Sub API"},
}

// failure is an error of the bus with what it means.
type failure struct {
	verdict
	code string // error-code without its prefix; may be empty
	grpc codes.Code
	err  error
}

// judge tells what the end of a call means. resuming tells whether it began at
// a replay id.
func (s *Source) judge(err error, trailer metadata.MD, resuming bool) failure {
	if err == nil || errors.Is(err, io.EOF) {
		return failure{verdict: verdict{do: again}, err: errors.New("the stream has ended")}
	}
	st, hide := status.Convert(err), s.cfg.Output.Secrets.Hide
	f := failure{grpc: st.Code(), err: errors.New(describe(st.Code(), hide(st.Message())))}
	if list := trailer.Get("error-code"); len(list) > 0 {
		f.code = strings.TrimPrefix(strings.TrimSpace(hide(list[0])), codePrefix)
		f.err = fmt.Errorf("%w (%s)", f.err, f.code)
		v, known := verdicts[strings.ToLower(f.code)]
		if !known {
			v = byCode[st.Code()]
		}
		f.verdict = v
		return f
	}
	if st.Code() == codes.InvalidArgument && resuming {
		f.verdict = verdict{do: doubt}
		if strings.Contains(strings.ToLower(st.Message()), "replay id validation failed") {
			f.do = lost
		}
		return f
	}
	f.verdict = byCode[st.Code()]
	switch {
	case st.Code() == codes.InvalidArgument:
		f.verdict = verdict{do: bug, exit: sysexits.Software}
	case st.Code() == codes.Unavailable && strings.Contains(st.Message(), "first record does not look like a TLS handshake"):
		f.verdict = verdict{do: bug, exit: sysexits.Config, hint: "there is no TLS at --endpoint: is it the Pub/Sub API's port?"}
	case st.Code() == codes.Unavailable && strings.Contains(st.Message(), "x509: "):
		f.verdict = verdict{do: bug, exit: sysexits.Config, hint: "--ca-file names the certificates to trust"}
	}
	return f
}

// judgeToken is for a session that could not be had.
func judgeToken(err error) failure {
	f := failure{err: err, verdict: verdict{do: again}}
	var e *salesforce.Error
	switch {
	case !errors.As(err, &e):
		f.do = abort
	case e.Kind == salesforce.KindLoginRate || e.Kind == salesforce.KindLimitTotal || e.Kind == salesforce.KindReserve:
		f.do = later
	case !e.Kind.Temporary():
		f.do = abort
	}
	return f
}

// describe words a status in one line.
func describe(code codes.Code, text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return code.String() + ": " + text
}

// fatal is the error of a run that this failure ends.
func (f failure) fatal() error {
	if sysexits.Coded(f.err) {
		return f.err
	}
	code := f.exit
	if code == 0 {
		code = sysexits.TempFail
	}
	return sysexits.WithHint(sysexits.Wrap(code, f.err), f.hint)
}
