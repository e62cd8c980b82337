// A worker in Go 1.23 or later, of the standard library alone:
//
//	GO_SCHEDULER_TOKEN=… go run examples/http_worker.go http://127.0.0.1:8710 default,mail
//
// At SIGTERM it takes no more, and ends once what runs is reported; a second signal ends
// it at once. What it had then runs again elsewhere, once its lease is over.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const most = 8 // runs at once

var server, queues = "http://127.0.0.1:8710", "default"

type object = map[string]any

type work struct {
	InstanceID string  `json:"instance_id"`
	Token      string  `json:"token"`
	Type       string  `json:"type"`
	Payload    object  `json:"payload"`
	Lease      float64 `json:"lease"`

	asking sync.Mutex // one request after another, and the report last
	cancel context.CancelFunc
}

// Your work. What it returns is the result; an error is that of the run, by which the
// definition's retry decides. The context is done once the run is cancelled or lost.
func handle(ctx context.Context, w *work) (any, error) {
	steps, seconds, more := w.number("steps", 1), w.number("seconds", 0), w.number("extend", 0)
	if steps <= 0 {
		return nil, fmt.Errorf("steps must be above zero: %v", steps)
	}
	if more > 0 {
		w.extend(more) // before what keeps heartbeats from being sent
	}
	for done := 1.0; done <= steps; done++ {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(inSeconds(seconds)):
		}
		w.progress(object{"done": done, "of": steps})
	}
	return object{"type": w.Type, "steps": steps}, nil
}

func (w *work) number(name string, otherwise float64) float64 {
	if found, ok := w.Payload[name].(float64); ok {
		return found
	}
	return otherwise
}

func (w *work) progress(value any)     { w.keep("heartbeat", object{"progress": value}) }
func (w *work) extend(seconds float64) { w.keep("extend", object{"seconds": seconds}) }

func (w *work) keep(what string, body object) {
	w.asking.Lock()
	defer w.asking.Unlock()
	status, answer := w.tell(what, body)
	// Other errors, such as 503, are for the next heartbeat.
	if answer["answer"] == "stop" || status == 403 || status == 404 || status == 409 {
		w.cancel()
	}
}

// The answer's status and body. Status 503: the server is away, or cannot be reached.
func (w *work) tell(what string, body object) (status int, answer object) {
	body["token"] = w.Token
	text, err := json.Marshal(body)
	if err != nil {
		return 400, object{"detail": err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), inSeconds(w.Lease/3))
	defer cancel()
	response, err := send(ctx, "POST", "/"+w.InstanceID+"/"+what, text)
	if err == nil {
		err = read(response, &answer)
	}
	if err != nil {
		return 503, object{"detail": err.Error()}
	}
	return response.StatusCode, answer
}

func (w *work) haveDone() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	reported := make(chan struct{})
	defer close(reported)
	go func() {
		for beats := time.Tick(inSeconds(w.Lease / 3)); ; {
			select {
			case <-reported:
				return
			case <-beats:
				w.keep("heartbeat", object{})
			}
		}
	}()
	what, body := "complete", object{}
	if result, err := handle(ctx, w); err != nil {
		what, body["message"] = "error", err.Error()
	} else {
		body["result"] = result
	}
	for pause := time.Second; pause < 1000*time.Second; pause *= 2 {
		status, answer := w.tell(what, body)
		if status != 429 && status < 500 {
			if status != 200 {
				log.Printf("%s is not recorded: %v", w.InstanceID, answer["detail"])
			}
			return
		}
		time.Sleep(pause)
	}
}

func send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	url := server + "/v1/work" + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("GO_SCHEDULER_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultClient.Do(request)
}

func read(response *http.Response, into any) error {
	defer response.Body.Close()
	if response.StatusCode == 204 {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

func poll(stopping context.Context, most int) ([]*work, error) {
	host, _ := os.Hostname()
	query := url.Values{
		"queues": {queues}, "max": {strconv.Itoa(most)}, "wait": {"30"},
		"worker": {fmt.Sprint(host, " ", os.Getpid())},
	}
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	answered := context.AfterFunc(stopping, hangUp)
	response, err := send(ctx, "GET", "?"+query.Encode(), nil)
	answered() // what has been handed out is not hung up on
	if err != nil {
		return nil, err
	}
	var found struct {
		Work   []*work
		Detail string
	}
	if err := read(response, &found); err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case 200, 204:
		return found.Work, nil
	case 401, 403:
		log.Fatal(found.Detail)
	}
	return nil, fmt.Errorf("the server answered %d: %s", response.StatusCode, found.Detail)
}

func inSeconds(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func main() {
	if len(os.Args) > 1 {
		server = os.Args[1]
	}
	if len(os.Args) > 2 {
		queues = os.Args[2]
	}
	stopping, unhook := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(stopping, unhook) // a second signal ends the process
	places, running := make(chan struct{}, most), sync.WaitGroup{}
	for stopping.Err() == nil {
		places <- struct{}{} // waits until one is free
		found, err := poll(stopping, 1+most-len(places))
		<-places
		if stopping.Err() == nil && err != nil {
			log.Printf("no work at the moment: %v", err)
			time.Sleep(time.Second)
		}
		for _, each := range found {
			if stopping.Err() != nil {
				each.tell("release", object{})
				continue
			}
			places <- struct{}{}
			running.Add(1)
			go func() {
				defer running.Done()
				each.haveDone()
				<-places
			}()
		}
	}
	running.Wait()
}
