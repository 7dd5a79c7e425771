package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Answer is an answer in JSON for any number of requests, compressed at most once.
type Answer struct {
	body       []byte
	compressed func() []byte
}

// NewAnswer returns the answer with a body in JSON.
func NewAnswer(body []byte) *Answer {
	return &Answer{body: body, compressed: sync.OnceValue(func() []byte { return compress(body) })}
}

// ServeHTTP sends the answer, compressed if the client accepts that.
func (a *Answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := a.body
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Vary", "Accept-Encoding")
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body = a.compressed()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // fails only if the client is gone
}

// Refuse sends an error, as JSON.
func Refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // fails only if the client is gone
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip.
func acceptsGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if c := strings.ToLower(strings.TrimSpace(coding)); c != "gzip" && c != "*" {
			continue
		}
		q, isWeight := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		n, err := strconv.ParseFloat(q, 64)
		return !isWeight || err == nil && n > 0
	}
	return false
}

// compress compresses with little effort.
func compress(body []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("web: " + err.Error()) // a buffer takes everything
	}
	return out.Bytes()
}
