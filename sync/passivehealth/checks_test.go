package passivehealth

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/model"
)

// TestAnswersAreReadAndDecidedOnInTime has a connection that waits, and two questions. Then one
// thing after the other is missing for a decision.
func TestAnswersAreReadAndDecidedOnInTime(t *testing.T) {
	for _, f := range model.Families {
		start, e := time.Now(), endpoint{model.TCP, netip.AddrPortFrom([...]netip.Addr{
			netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("fd00:10:244::1"),
		}[f], 80)}
		s, at := checks{all: map[endpoint]*check{}}, start.Add
		waits := func(after time.Duration) {
			s.observe(at(after), map[endpoint][]uint32{e: {7}}, map[endpoint][]*pool{e: {{}}})
		}
		expect := func(what string, got, want int) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s: %d, want %d", f, what, got, want)
			}
		}
		waits(0)
		c := s.all[e]
		expect("the first question is due", len(s.due(at(0))), 1)
		expect("silent without a question", len(s.silentChecks(at(secondQuestion))), 0)
		expect("ms for the first answer", int(c.sent(at(0)).Milliseconds()), 1000)
		expect("the second is due too early", len(s.due(at(secondQuestion-1))), 0)
		expect("silent too early", len(s.silentChecks(at(secondQuestion-1))), 0)
		expect("the second is due", len(s.due(at(secondQuestion))), 1)
		expect("silent", len(s.silentChecks(at(secondQuestion))), 1)
		expect("ms for the second answer", int(c.sent(at(secondQuestion)).Milliseconds()), 500)
		expect("a third is due", len(s.due(at(answerTime))), 0)
		for _, began := range []time.Time{start, at(-time.Hour), start} { // one is of an earlier phase
			s.answer(at(answerTime), questionAnswer{e, began, outcomeSilence})
		}
		waits(answerTime)
		c.answered = map[uint32]struct{}{}
		expect("decided too early", len(s.decisions(at(answerTime-1))), 0)
		expect("decided", len(s.decisions(at(answerTime))), 1)
		for what, missing := range map[string]func(){
			"without the second question":   func() { c.questions = 1 },
			"without the second silence":    func() { c.silent = 1 },
			"when nothing waits any more":   func() { c.stillWaits = false },
			"without the answers so far":    func() { c.answered = nil },
			"when connections are answered": func() { c.answers(at(answerTime)) },
		} {
			complete := *c
			missing()
			expect(what, len(s.decisions(at(answerTime))), 0)
			*c = complete
		}
	}
}
