package answer

import (
	"cmp"
	"fmt"
	"strings"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// Responses of endpoints, as observed or after a probe.
const (
	Responds = "answers"
	Refuses  = "refuses"
	Silent   = "does not answer"
)

// Observed returns how the endpoints of a document were seen to respond while it was observed, by
// address and port: those that refuse connections, or do not answer. Over UDP, silence may be right.
func Observed(d *nodestatus.Document, protocol string) map[string]string {
	out := map[string]string{}
	for _, p := range d.EachPort() {
		for i := range p.Endpoints {
			switch e := &p.Endpoints[i]; {
			case !strings.EqualFold(p.Protocol, protocol):
			case e.Refused > 0:
				out[e.At()] = Refuses
			case e.Unanswered > 0 && protocol != model.UDP.String():
				out[e.At()] = cmp.Or(out[e.At()], Silent)
			}
		}
	}
	return out
}

// Responses counts endpoints by their responses.
type Responses struct {
	All, Answer, Refuse, Silent int

	untranslated bool // by all outcomes
}

// Add counts an endpoint.
func (r *Responses) Add(response string) {
	r.All++
	switch response {
	case Responds:
		r.Answer++
	case Refuses:
		r.Refuse++
	case Silent:
		r.Silent++
	}
}

// Unknown returns the number of endpoints whose response was not observed.
func (r Responses) Unknown() int { return r.All - r.Answer - r.Refuse - r.Silent }

// Answers returns whether all endpoints answer; empty if there are none. One that fails is
// enough to know that not all of them do.
func (r Responses) Answers() string {
	switch failing := r.Refuse + r.Silent; {
	case r.All == 0:
		return ""
	case failing == r.All:
		return Never
	case failing > 0:
		return Sometimes
	case r.Unknown() > 0:
		return Unknown
	}
	return Always
}

// Text returns "the rules send packets to 2 endpoints; whether they answer was not observed".
func (r Responses) Text() string {
	noun := "endpoint"
	if r.untranslated {
		noun = "destination"
	}
	return "the rules send packets to " + nodestatus.Plural(r.All, noun) + r.Observed()
}

// Observed returns what follows there: "; whether they answer was not observed".
func (r Responses) Observed() string {
	var parts []string
	for _, p := range []struct {
		n               int
		one, all, other string
	}{
		{r.Answer, "it answers", "all answer", "answering"},
		{r.Refuse, "it refuses connections", "all refuse connections", "refusing connections"},
		{r.Silent, "it does not answer", "none answers", "not answering"},
		{r.Unknown(), "whether it answers was not observed", "whether they answer was not observed", "not observed"},
	} {
		switch {
		case p.n == r.All:
			if r.All == 1 {
				return "; " + p.one
			}
			return "; " + p.all
		case p.n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.other))
		}
	}
	return ": " + strings.Join(parts, ", ")
}

// Count counts the endpoints that the packet may reach. Those that were not explored were not
// observed either.
func (a *Answer) Count() (r Responses) {
	r.untranslated = a.Service == ""
	for i := range a.Outcomes {
		if o := &a.Outcomes[i]; o.Arrives() {
			for k := range o.Endpoints {
				r.Add(o.Endpoints[k].Response)
			}
		}
	}
	r.All += a.Unseen.Endpoints
	return r
}

// ProbeHint returns how to find out more; empty if that is not possible.
func ProbeHint(r Responses, protocol string) string {
	if r.Unknown() == 0 || !strings.EqualFold(protocol, "tcp") {
		return ""
	}
	return " (--probe asks)"
}

// ExitError returns the error with the exit code of explain: [exit.Trouble] where rules or
// endpoints are not known, and 1 where the packet does not always arrive, or is not answered.
func ExitError(arrives, answers string) error {
	switch {
	case arrives == Unknown, arrives == Always && answers == Unknown:
		return &exit.Error{Code: exit.Trouble}
	case arrives != Always, answers != Always && answers != "":
		return &exit.Error{Code: 1}
	}
	return nil
}
