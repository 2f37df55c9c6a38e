/** Modal dialogs, and the confirmation before destructive actions. */

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { Shared, useShared } from "../state";
import { dialogs, Notices } from "./notices";

export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  // Before the next key event: what is typed right after "/" belongs into the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog) return undefined;
    if (!dialog.open) dialog.showModal();
    dialogs.value += 1;
    const clicked = (event: Event): void => {
      if (event.target === dialog) dialog.close(); // the backdrop, not what is in the dialog
    };
    dialog.addEventListener("click", clicked);
    return () => {
      dialog.removeEventListener("click", clicked);
      dialogs.value -= 1;
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? "wide" : undefined}
      aria-label={props.title}
      onClose={props.onClose}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{props.title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
            ×
          </button>
        </header>
        {props.children}
      </div>
      <Notices inside />
    </dialog>
  );
}

interface Confirmation {
  title: string;
  text: ComponentChildren;
  action: string;
  /** Must be typed to enable the button. */
  typed?: string;
  answer: (yes: boolean) => void;
}

const question = new Shared<Confirmation | null>(null);

/** Asks for confirmation of an irreversible action. */
export function confirmAction(asked: Omit<Confirmation, "answer">): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer: (yes) => {
        question.value = null;
        resolve(yes);
      },
    };
  });
}

export function ConfirmDialogs(): JSX.Element | null {
  const asked = useShared(question);
  return asked && <ConfirmDialog key={asked.title} {...asked} />;
}

function ConfirmDialog(props: Confirmation): JSX.Element {
  const [typed, setTyped] = useState("");
  const ready = props.typed === undefined || typed === props.typed;
  return (
    <Dialog title={props.title} onClose={() => props.answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) props.answer(true);
        }}
      >
        <div class="question">{props.text}</div>
        {props.typed !== undefined && (
          <label class="field">
            <span>
              Type <code class="typed">{props.typed}</code> to confirm
            </span>
            <input
              autofocus
              autocomplete="off"
              spellcheck={false}
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        <div class="buttons">
          <button type="button" onClick={() => props.answer(false)}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={!ready}>
            {props.action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
