package answer

import (
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/nft/foreign/simulate/path"
)

// Reply is what happens on this node to the reply of an endpoint.
type Reply struct {
	Verdict string `json:"verdict"` // see [ReplyDelivered]
	// From and To are the addresses of the reply where this node last sees it, or where the
	// endpoint sends it if it does not pass this node. A port that cannot be known is 0.
	From     string `json:"from"`
	To       string `json:"to"`
	Bypasses bool   `json:"bypasses,omitempty"` // it does not pass this node
	// Later is true if the reply passes, and the verdict is of what the client sends then.
	Later   bool         `json:"later,omitempty"`
	How     string       `json:"how,omitempty"` // of refused, unreachable, unknown
	By      path.RuleRef `json:"by,omitzero"`
	Reason  string       `json:"reason,omitempty"` // as that of an [Outcome]
	Fault   string       `json:"fault,omitempty"`
	Because string       `json:"because,omitempty"`
}

// Verdicts of replies.
const (
	ReplyDelivered   = "delivered"    // to the client, from the address that it asked
	ReplyNotAccepted = "not accepted" // it comes from another address, or does not go to the client
	ReplyDropped     = VerdictDropped
	ReplyRefused     = VerdictRefused // the endpoint gets a refusal
	ReplyUnreachable = VerdictUnreachable
	ReplyUnknown     = VerdictUnknown
)

// Arrives returns whether the client gets the reply, as far as this node decides; always if it is
// not known, as of versions without replies.
func (r *Reply) Arrives() string {
	switch {
	case r == nil, r.Verdict == ReplyDelivered:
		return Always
	case r.Verdict == ReplyUnknown:
		return Unknown
	}
	return Never
}

// bypassThisNode makes the reply one that goes to the client by another way than this node,
// which cannot translate it back to the address that the client asked.
func (e *Endpoint) bypassThisNode(asked string) {
	e.Reply = &Reply{Verdict: ReplyDelivered, From: e.At(), To: e.Sees, Bypasses: true}
	if e.At() != asked {
		e.Reply.Verdict = ReplyNotAccepted
	}
}

// At returns the address and port of an endpoint.
func (e *Endpoint) At() string {
	a, err := netip.ParseAddr(e.Address)
	if err != nil {
		return e.Address
	}
	return netip.AddrPortFrom(a, e.Port).String()
}

// replies prints what comes back from the endpoints, once for those that it is the same for.
func replies(b *strings.Builder, a *Answer, list []Outcome) {
	var texts []string
	from := map[string][]*Endpoint{}
	for i := range list {
		for j := range list[i].Endpoints {
			e := &list[i].Endpoints[j]
			if e.Reply == nil {
				continue
			}
			text := e.ReplyText(a, list[i].Masquerade)
			if from[text] == nil {
				texts = append(texts, text)
			}
			from[text] = append(from[text], e)
		}
	}
	for _, text := range texts[:min(len(texts), maxPrinted)] {
		who := ""
		if len(texts) > 1 {
			who = " from " + from[text][0].At() + others(" and ", len(from[text])-1)
		}
		fmt.Fprintf(b, "Back%s: %s\n", who, text)
	}
	if more := len(texts) - maxPrinted; more > 0 {
		fmt.Fprintf(b, "  and %d other results\n", more)
	}
}

// ReplyText describes the reply of an endpoint of the answer: who answers whom.
func (e *Endpoint) ReplyText(a *Answer, masquerade bool) string {
	r := e.Reply
	text := e.answersText(a, masquerade)
	switch r.Verdict {
	case ReplyDelivered:
		if a.Interface != "" && e.Sees != a.client() {
			text += ", which answers " + a.client()
		}
		return text + "; the client gets the reply from " + a.To + ", the address that it asked"
	case ReplyNotAccepted:
		return text + e.notAcceptedText(a)
	case ReplyUnknown:
		return text + ", but whether the client gets the reply is not known: " + r.How
	}
	return text + ", but " + r.lostText(a)
}

// lostText describes what is stopped: the reply, or what the client sends after it.
func (r *Reply) lostText(a *Answer) string {
	what := "the reply"
	if r.Later {
		what = "what the client sends after the reply"
	}
	switch r.Verdict {
	case ReplyUnreachable:
		return what + " does not leave " + a.here() + ": " + r.How
	case ReplyRefused:
		return what + " is rejected with " + r.How + byText(r.By, r.Because)
	}
	return what + " is dropped" + byText(r.By, r.Because)
}

func (e *Endpoint) answersText(a *Answer, masquerade bool) string {
	who := "the endpoint"
	if a.Service == "" {
		who = a.To
	}
	switch {
	case e.Node:
		return a.here() + " answers " + e.Sees
	case masquerade, a.Interface == "" && !e.Reply.Bypasses: // this node sends the packet
		return who + " answers " + a.here() + " (" + e.Sees + ")"
	case e.Reply.Bypasses:
		return who + " answers " + e.Sees + " by another way than " + a.here()
	}
	return who + " answers " + e.Sees + " by way of " + a.here()
}

func (a *Answer) client() string {
	if from, err := netip.ParseAddrPort(a.From); err == nil {
		return from.Addr().String()
	}
	return a.From
}

func (e *Endpoint) notAcceptedText(a *Answer) string {
	r := e.Reply
	from := r.From
	if from == e.At() {
		from = "the endpoint's own address"
	}
	switch {
	case r.From == a.To:
		return ", but the reply goes to " + r.To + ", and not to the client"
	case r.Bypasses:
		return ", but only " + a.here() + " could translate the reply back: the client gets it from " + from +
			", which it did not ask, and does not accept it"
	}
	return ", but the reply is not translated back: the client gets it from " + from +
		", which it did not ask, and does not accept it"
}
