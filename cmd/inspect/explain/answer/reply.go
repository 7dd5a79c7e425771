package answer

import (
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/nft/foreign/simulate/path"
)

// ReplyArrives returns whether the client gets the reply, as far as this node decides; always if it is
// not known, as of versions without replies.
func ReplyArrives(r path.Reply) string {
	switch {
	case r.Verdict == "", r.Verdict == path.VerdictDelivered:
		return Always
	case r.Verdict == path.VerdictUnknown:
		return Unknown
	}
	return Never
}

// bypassThisNode makes the reply one that goes to the client by another way than this node,
// which cannot translate it back to the address that the client asked.
func bypassThisNode(e *path.Endpoint, asked string) {
	e.Reply = path.Reply{Verdict: path.VerdictDelivered, From: e.At(), To: e.Sees.String(), Bypasses: true}
	if e.At() != asked {
		e.Reply.Verdict = path.VerdictNotAccepted
	}
}

// replies prints what comes back from the endpoints, once for those that it is the same for.
func replies(b *strings.Builder, a *Answer, list []path.Outcome) {
	var texts []string
	from := map[string][]*path.Endpoint{}
	for i := range list {
		for j := range list[i].Endpoints {
			e := &list[i].Endpoints[j]
			if e.Reply.Verdict == "" {
				continue
			}
			text := a.ReplyText(e, list[i].Masquerade)
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
func (a *Answer) ReplyText(e *path.Endpoint, masquerade bool) string {
	r := e.Reply
	text := a.answersText(e, masquerade)
	switch r.Verdict {
	case path.VerdictDelivered:
		if a.Interface != "" && e.Sees != a.client() {
			text += ", which answers " + a.client().String()
		}
		return text + "; the client gets the reply from " + a.To + ", the address that it asked"
	case path.VerdictNotAccepted:
		return text + a.notAcceptedText(e)
	case path.VerdictUnknown:
		return text + ", but whether the client gets the reply is not known: " + r.How
	}
	return text + ", but " + a.lostText(r)
}

// lostText describes what is stopped: the reply, or what the client sends after it.
func (a *Answer) lostText(r path.Reply) string {
	what := "the reply"
	if r.Later {
		what = "what the client sends after the reply"
	}
	switch r.Verdict {
	case path.VerdictUnreachable:
		return what + " does not leave " + a.here() + ": " + r.How
	case path.VerdictRefused:
		return what + " is rejected with " + r.How + byText(r.By, r.Because)
	}
	return what + " is dropped" + byText(r.By, r.Because)
}

func (a *Answer) answersText(e *path.Endpoint, masquerade bool) string {
	who := "the endpoint"
	if a.Service == "" {
		who = a.To
	}
	switch {
	case e.Node:
		return a.here() + " answers " + e.Sees.String()
	case masquerade, a.Interface == "" && !e.Reply.Bypasses: // this node sends the packet
		return who + " answers " + a.here() + " (" + e.Sees.String() + ")"
	case e.Reply.Bypasses:
		return who + " answers " + e.Sees.String() + " by another way than " + a.here()
	}
	return who + " answers " + e.Sees.String() + " by way of " + a.here()
}

func (a *Answer) client() netip.Addr {
	if from, err := netip.ParseAddrPort(a.From); err == nil {
		return from.Addr()
	}
	return Addr(a.From)
}

func (a *Answer) notAcceptedText(e *path.Endpoint) string {
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
