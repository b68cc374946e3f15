// A slider over the steps of a film. One move at a time is on its way: the next is sent when its
// picture is there, so that pictures come as fast as they can and never lag behind.
export default {
  template: `<input type="range" class="drfh-slide" min="0" step="1" :max="last" :value="at"
    :aria-label="'time: ' + text" :aria-valuetext="text" @input="moved">`,
  data() { return { at: 0, last: 1, text: "" }; },
  created() {
    this.turn = 0;  // moves made here
    this.sent = 0;  // the last of them that the server was told
    this.known = 0;  // the last of them that it answered
  },
  mounted() { this.$emit("ready"); },
  methods: {
    moved(event) {
      this.at = Number(event.target.value);
      this.turn++;
      this.send();
    },
    send() {
      if (this.sent > this.known || this.sent === this.turn) return;
      this.sent = this.turn;
      this.$emit("move", { at: this.at, turn: this.turn });
    },
    set(at, last, text, turn) {
      this.last = last;
      this.text = text;
      this.known = Math.max(this.known, turn);
      if (turn >= this.turn) this.at = at;  // else somebody has moved it on since
      else this.send();
    },
  },
};
